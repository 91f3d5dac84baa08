import type { Phase } from "../../model/event.ts";
import type { Shell } from "../shell.ts";
import type { Display } from "./display.ts";
import { plural, showCount, showReward, showSeconds } from "./figures.ts";
import { openLiveRegion } from "./live-region.ts";
import { elapsedS, type Row, totalsOf } from "./progress.ts";
import { cut, oneLine, type Paint, pad, paintFor, printable } from "./style.ts";

const STEPS: readonly Phase[] = ["create", "setup", "agent", "verify", "collect"];

/** One line for each running rollout and a total line, redrawn in place; finished ones scroll away above. */
export function openBars(first: readonly Row[], shell: Shell, options: { tickMs?: number } = {}): Display {
	const now = Date.now;
	const rows = new Map(first.map((row) => [row.id, row]));
	const startedAt = now();
	const paint = paintFor(shell.stderr, shell.env);
	const nameWidth = Math.min(28, Math.max(...first.map((row) => row.name.length), 4));

	const region = openLiveRegion(
		shell.stderr,
		() => {
			const { columns, rows: height } = shell.stderr;
			const running = [...rows.values()].filter((row) => row.startedAt !== null && row.phase !== "done");
			const shown = running.slice(0, Math.max(1, height - 4));
			const lines = shown.map((row) => barOf(row, { now: now(), nameWidth, columns, paint }));
			if (shown.length < running.length)
				lines.push(paint("dim", `  and ${running.length - shown.length} more`));
			lines.push(totalOf(rows.values(), { elapsedS: (now() - startedAt) / 1000, columns, paint }));
			return lines;
		},
		options.tickMs,
	);

	return {
		update(row, before) {
			rows.set(row.id, row);
			if (row.phase === "done" && before.phase !== "done") {
				region.print(endLine(row, { nameWidth, columns: shell.stderr.columns, paint }));
			}
			region.changed();
		},
		say: (text) => region.print(printable(text)),
		[Symbol.dispose]: () => region[Symbol.dispose](),
	};
}

function barOf(row: Row, view: { now: number; nameWidth: number; columns: number; paint: Paint }): string {
	const at = Math.max(0, STEPS.indexOf(row.phase));
	const bar = "▰".repeat(at + 1) + "▱".repeat(STEPS.length - at - 1);
	const name = pad(cut(oneLine(row.name), view.nameWidth), view.nameWidth);
	const spent = [
		pad(plural(row.calls + (row.calling ? 1 : 0), "call"), 9, "left"),
		pad(`${showCount(row.promptTokens)} + ${showCount(row.completionTokens)} tokens`, 22, "left"),
	];
	const figures = [
		pad(row.phase, 7),
		pad(showSeconds(elapsedS(row, view.now)), 9, "left"),
		// While a command of the task runs, which one is worth more than what the model cost so far.
		...(row.step === null ? spent : [` ${oneLine(row.step)}`]),
	];
	if (row.attempt > 1) figures.push(`attempt ${row.attempt}`);
	const room = view.columns - 1 - 2 - view.nameWidth - 2 - STEPS.length - 2;
	return `  ${name}  ${view.paint("cyan", bar)}  ${cut(figures.join(" "), Math.max(0, room))}`;
}

function totalOf(rows: Iterable<Row>, view: { elapsedS: number; columns: number; paint: Paint }): string {
	const totals = totalsOf(rows);
	const width = 20;
	const filled = totals.all === 0 ? 0 : Math.floor((totals.done / totals.all) * width);
	const figures = [
		`${totals.done}/${totals.all} done`,
		`${totals.running} running`,
		...(totals.queued > 0 ? [`${totals.queued} waiting`] : []),
		plural(totals.calls, "call"),
		`${showCount(totals.promptTokens)} + ${showCount(totals.completionTokens)} tokens`,
		showSeconds(view.elapsedS),
	];
	const bar = `${"█".repeat(filled)}${"░".repeat(width - filled)}`;
	return `  ${view.paint("green", bar)}  ${cut(figures.join(" · "), Math.max(0, view.columns - 5 - width))}`;
}

function endLine(row: Row, view: { nameWidth: number; columns: number; paint: Paint }): string {
	const [mark, style] = markOf(row);
	const name = pad(cut(oneLine(row.name), view.nameWidth), view.nameWidth);
	const figures = [
		pad(`reward ${showReward(row.reward)}`, 13),
		pad(row.outcome ?? "ended", 9),
		pad(plural(row.calls, "call"), 9, "left"),
		pad(showSeconds(elapsedS(row, row.endedAt ?? 0)), 9, "left"),
	];
	if (row.failure !== null) figures.push(oneLine(`${row.failure.code}: ${row.failure.message}`));
	const room = Math.max(0, view.columns - 1 - 2 - view.nameWidth - 2);
	return `${view.paint(style, mark)} ${name}  ${cut(figures.join(" "), room)}`;
}

function markOf(row: Row): [string, "green" | "yellow" | "red"] {
	if (row.outcome === "failed") return ["✗", "red"];
	if (row.reward !== null && row.reward >= 1) return ["✓", "green"];
	return ["●", "yellow"];
}
