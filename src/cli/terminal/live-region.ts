import type { Output } from "../shell.ts";
import { widthOf } from "./style.ts";

/** At most this often is anything redrawn. */
const REDRAW_MS = 100;
/** Clocks on the screen move even when nothing happens. */
const TICK_MS = 500;

/** The last lines of a terminal, redrawn in place, with ordinary lines scrolling away above them. */
export interface LiveRegion extends Disposable {
	/** Something changed; it will be redrawn soon. */
	changed(): void;
	/** A line that stays. */
	print(text: string): void;
}

export function openLiveRegion(output: Output, draw: () => string[], tickMs = TICK_MS): LiveRegion {
	let drawn: string[] = [];
	let above: string[] = [];
	let timer: NodeJS.Timeout | null = null;
	let closed = false;

	const redraw = () => {
		const lines = draw();
		// One write for all of it, so that no half-drawn state is ever seen.
		output.write(
			`${eraseOf(drawn, output.columns)}${above.map((line) => `${line}\n`).join("")}${lines.join("\n")}`,
		);
		drawn = lines;
		above = [];
	};
	const changed = () => {
		if (closed || timer !== null) return;
		timer = setTimeout(() => {
			timer = null;
			redraw();
		}, REDRAW_MS);
	};
	const close = () => {
		if (closed) return;
		closed = true;
		if (timer !== null) clearTimeout(timer);
		clearInterval(ticks);
		process.off("exit", close);
		resize[Symbol.dispose]();
		output.write(
			`${eraseOf(drawn, output.columns)}${above.map((line) => `${line}\n`).join("")}${SHOW_CURSOR}`,
		);
	};

	const ticks = setInterval(changed, tickMs);
	const resize = output.onResize(changed);
	// Whatever ends the process, the person gets the cursor back.
	process.on("exit", close);
	output.write(HIDE_CURSOR);
	redraw();

	return {
		changed,
		print(text) {
			above.push(...text.split("\n"));
			changed();
		},
		[Symbol.dispose]: close,
	};
}

const HIDE_CURSOR = "\x1b[?25l";
const SHOW_CURSOR = "\x1b[?25h";

/**
 * Back to the first drawn line, and everything from there on cleared. Terminals reflow when they get narrower, so a
 * line may by now fill several rows.
 */
function eraseOf(drawn: readonly string[], columns: number): string {
	if (drawn.length === 0) return "";
	const rows = drawn.reduce(
		(sum, line) => sum + Math.max(1, Math.ceil(widthOf(line) / Math.max(1, columns))),
		0,
	);
	const up = rows > 1 ? `\x1b[${rows - 1}A` : "";
	// Line by line: some terminals move a screen that is cleared as a whole into the scrollback.
	return `\r${up}${Array(rows).fill("\x1b[2K").join("\x1b[1B")}${up}`;
}
