import type { Output } from "../shell.ts";
import { widthOf } from "../terminal/style.ts";

/** What stands at the bottom, and where the cursor blinks in it. */
export interface Region {
	lines: string[];
	cursor: { line: number; column: number };
}

/** Keys are answered at once; what an agent writes need not be drawn more often than eyes can follow. */
const REDRAW_MS = 33;
/** Clocks move even when nothing happens. */
const TICK_MS = 500;

/** A terminal whose last lines are redrawn in place around a prompt, with ordinary lines scrolling away above. */
export class Screen implements Disposable {
	readonly #output: Output;
	readonly #draw: () => Region;
	readonly #ticks: NodeJS.Timeout;
	readonly #resizing: Disposable;
	readonly #onExit = () => this[Symbol.dispose]();
	#drawn: Region = { lines: [], cursor: { line: 0, column: 0 } };
	#above: string[] = [];
	#timer: NodeJS.Timeout | null = null;
	#isClosed = false;

	constructor(output: Output, draw: () => Region, tickMs = TICK_MS) {
		this.#output = output;
		this.#draw = draw;
		this.#ticks = setInterval(() => this.changed(), tickMs);
		this.#resizing = output.onResize(() => this.changed());
		// Whatever ends the process, the terminal is left as it was.
		process.on("exit", this.#onExit);
		output.write(PASTE_ON);
	}

	/** Lines that stay. */
	print(...lines: string[]): void {
		this.#above.push(...lines.flatMap((line) => line.split("\n")));
		this.changed();
	}

	changed(): void {
		if (this.#isClosed) return;
		this.#timer ??= setTimeout(() => this.now(), REDRAW_MS);
	}

	now(): void {
		if (this.#timer !== null) clearTimeout(this.#timer);
		this.#timer = null;
		if (this.#isClosed) return;
		const region = this.#draw();
		// One write for all of it, so that no half-drawn state is ever seen.
		this.#output.write(
			`${this.#erase()}${this.#takeAbove()}${region.lines.join("\n")}${back(region, this.#output.columns)}`,
		);
		this.#drawn = region;
	}

	/** What was written above stays; the region goes. */
	[Symbol.dispose](): void {
		if (this.#isClosed) return;
		if (this.#timer !== null) clearTimeout(this.#timer);
		clearInterval(this.#ticks);
		process.off("exit", this.#onExit);
		this.#resizing[Symbol.dispose]();
		this.#isClosed = true;
		this.#output.write(`${this.#erase()}${this.#takeAbove()}${PASTE_OFF}`);
	}

	#takeAbove(): string {
		const text = this.#above.map((line) => `${line}\n`).join("");
		this.#above = [];
		return text;
	}

	/** Back to the first drawn line, and everything from there on cleared. Terminals reflow, so a line may fill several rows by now. */
	#erase(): string {
		const { lines, cursor } = this.#drawn;
		if (lines.length === 0) return "";
		const { columns } = this.#output;
		const before = lines.slice(0, cursor.line).reduce((sum, line) => sum + rowsOf(line, columns), 0);
		const up = before + Math.floor(cursor.column / Math.max(1, columns));
		const rows = lines.reduce((sum, line) => sum + rowsOf(line, columns), 0);
		const clear = Array(rows).fill("\x1b[2K").join("\x1b[1B");
		return `\r${move(up, "A")}${clear}${move(rows - 1, "A")}`;
	}
}

const PASTE_ON = "\x1b[?2004h";
const PASTE_OFF = "\x1b[?2004l";

function move(count: number, direction: "A" | "C"): string {
	return count > 0 ? `\x1b[${count}${direction}` : "";
}

/** From the end of what was drawn to where the cursor belongs. */
function back({ lines, cursor }: Region, columns: number): string {
	const below = lines.slice(cursor.line + 1).reduce((sum, line) => sum + rowsOf(line, columns), 0);
	const inside = rowsOf(lines[cursor.line] ?? "", columns) - 1 - Math.floor(cursor.column / columns);
	return `${move(below + inside, "A")}\r${move(cursor.column % columns, "C")}`;
}

function rowsOf(line: string, columns: number): number {
	return Math.max(1, Math.ceil(widthOf(line) / Math.max(1, columns)));
}

/** Breaks a text, without colour codes, into lines of at most so many columns. */
export function wrap(text: string, columns: number): string[] {
	const lines: string[] = [];
	let line = "";
	let width = 0;
	for (const character of text) {
		const wide = widthOf(character);
		if (width + wide > Math.max(2, columns)) {
			lines.push(line);
			line = "";
			width = 0;
		}
		line += character;
		width += wide;
	}
	return [...lines, line];
}
