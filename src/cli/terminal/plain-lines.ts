import { printLine, type Shell } from "../shell.ts";
import type { Display } from "./display.ts";
import { plural, showReward, showSeconds } from "./figures.ts";
import { elapsedS, type Row } from "./progress.ts";
import { oneLine, printable } from "./style.ts";

/** For pipes and log files: one line when a rollout starts, one when it ends, one when it is tried again. */
export function openPlainLines(shell: Shell): Display {
	return {
		update(row, before) {
			if (row.attempt > before.attempt && row.attempt === 1)
				printLine(shell.stderr, `${oneLine(row.name)}: started`);
			if (row.attempt > before.attempt && row.attempt > 1) {
				printLine(shell.stderr, `${oneLine(row.name)}: attempt ${row.attempt} started`);
			}
			if (row.phase === "done" && before.phase !== "done")
				printLine(shell.stderr, `${oneLine(row.name)}: ${endOf(row)}`);
		},
		say: (text) => printLine(shell.stderr, printable(text)),
		[Symbol.dispose]() {},
	};
}

/** `completed, reward 1.00, 4 calls, 3.2 s`, or what went wrong. */
function endOf(row: Row): string {
	const parts = [
		row.outcome ?? "ended",
		`reward ${showReward(row.reward)}`,
		plural(row.calls, "call"),
		showSeconds(elapsedS(row, row.endedAt ?? 0)),
	];
	if (row.failure !== null) parts.push(oneLine(`${row.failure.code}: ${row.failure.message}`));
	return parts.join(", ");
}
