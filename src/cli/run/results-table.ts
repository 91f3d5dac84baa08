import { printLine, type Shell } from "../shell.ts";
import { plural, showCount, showReward, showSeconds } from "../terminal/figures.ts";
import { elapsedS, type Row, totalsOf } from "../terminal/progress.ts";
import { oneLine, widthFor } from "../terminal/style.ts";
import { layOut } from "../terminal/table.ts";
import { summariseTasks } from "./task-summary.ts";

/** How it went, one line for each rollout, and where to look next. */
export function showResults(
	rows: readonly Row[],
	shell: Shell,
	about: { model: string; server: string | undefined },
): void {
	const { model, server } = about;
	const width = widthFor(shell.stdout);
	const lines = layOut(
		[
			{ title: "task" },
			{ title: "reward", align: "right" },
			{ title: "outcome" },
			{ title: "calls", align: "right" },
			{ title: "tokens in + out", align: "right" },
			{ title: "time", align: "right" },
			{ title: "rollout" },
		],
		rows.map((row) => [
			oneLine(row.name),
			showReward(row.reward),
			row.outcome ?? "unfinished",
			showCount(row.calls),
			`${showCount(row.promptTokens)} + ${showCount(row.completionTokens)}`,
			showSeconds(elapsedS(row, row.endedAt ?? 0)),
			row.id,
		]),
		width,
	);
	const tasks = summariseTasks(rows, width);
	for (const line of ["", ...lines, ...(tasks.length > 0 ? ["", ...tasks] : []), "", summaryOf(rows, model)])
		printLine(shell.stdout, line);
	for (const row of rows) {
		if (row.failure === null) continue;
		const { boundary, code, message } = row.failure;
		printLine(shell.stdout, `${oneLine(row.name)} failed (${boundary}, ${code}): ${oneLine(message)}`);
	}
	const closer = rows.find((row) => row.failure !== null) ?? rows.find((row) => row.reward !== 1) ?? rows[0];
	if (closer === undefined) return;
	const where =
		server === undefined
			? `paddock show ${closer.id}, or in the browser: paddock view`
			: new URL(`/web/rollouts/${closer.id}`, server).href;
	printLine(shell.stdout, `Look closer: ${where}`);
}

function summaryOf(rows: readonly Row[], model: string): string {
	const totals = totalsOf(rows);
	const rewards = rows.map((row) => row.reward).filter((reward) => reward !== null);
	const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
	const starts = rows.map((row) => row.startedAt).filter((at) => at !== null);
	const ends = rows.map((row) => row.endedAt).filter((at) => at !== null);
	const wallS = starts.length > 0 && ends.length > 0 ? (Math.max(...ends) - Math.min(...starts)) / 1000 : 0;
	return [
		plural(rows.length, "rollout"),
		oneLine(model),
		rewards.length === 0
			? "no reward"
			: `mean reward ${mean.toFixed(2)}${rewards.length < rows.length ? ` of ${rewards.length}` : ""}`,
		plural(totals.calls, "call"),
		`${showCount(totals.promptTokens)} + ${showCount(totals.completionTokens)} tokens`,
		showSeconds(wallS),
	].join(" · ");
}
