import { passAt } from "../../store/group-summary.ts";
import { showReward } from "../terminal/figures.ts";
import type { Row } from "../terminal/progress.ts";
import { oneLine } from "../terminal/style.ts";
import { layOut } from "../terminal/table.ts";

/** With several rollouts of each task: how well each task goes, by mean and pass@k, and which group they are. */
export function summariseTasks(rows: readonly Row[], width: number): string[] {
	const byTask = Map.groupBy(rows, (row) => row.task);
	if (byTask.size === rows.length) return [];
	const tasks = [...byTask].map(([task, tries]) => ({ task, tries, pass: passAt(tries.map(toMember)) }));
	const ks = [...new Set(tasks.flatMap(({ pass }) => Object.keys(pass)))].sort(
		(a, b) => Number(a) - Number(b),
	);
	const right = { align: "right" } as const;
	return layOut(
		[
			{ title: "task" },
			{ title: "rollouts", ...right },
			{ title: "mean", ...right },
			...ks.map((k) => ({ title: `pass@${k}`, ...right })),
			{ title: "group" },
		],
		tasks.map(({ task, tries, pass }) => [
			oneLine(task),
			String(tries.length),
			showReward(mean(tries)),
			...ks.map((k) => (pass[k] === undefined ? "–" : pass[k].toFixed(2))),
			tries[0]!.groupId ?? "–",
		]),
		width,
	);
}

function toMember(row: Row) {
	const status = row.phase === "done" ? ("done" as const) : ("running" as const);
	return { id: row.id, status, reward: row.reward, outcome: row.outcome };
}

function mean(rows: readonly Row[]): number | null {
	const rewards = rows.map((row) => row.reward).filter((reward) => reward !== null);
	if (rewards.length === 0) return null;
	return rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
}
