import { loadConfig } from "../config.ts";
import { Outcome } from "../model/failure.ts";
import { type RolloutRow, RolloutStatus } from "../model/rollout.ts";
import type { RolloutFilter } from "../store/store.ts";
import type { Arguments, Command, Option } from "./command.ts";
import { openHere, warnOn } from "./open.ts";
import { printLine } from "./shell.ts";
import { showCount, showReward, showSeconds, showTime } from "./terminal/figures.ts";
import { oneLine } from "./terminal/style.ts";
import { layOut } from "./terminal/table.ts";

const DEFAULT_LIMIT = 20;

/** Which rollouts are meant, for every command that can mean many. */
export const FILTER_OPTIONS: Record<string, Option> = {
	status: { value: "<status>", help: RolloutStatus.options.join(", ") },
	outcome: { value: "<outcome>", help: Outcome.options.join(", ") },
	task: { value: "<id>", help: "only rollouts of this task" },
	group: { value: "<id>", help: "only rollouts of this group" },
	batch: { value: "<id>", help: "only rollouts of this batch" },
};

export const list: Command = {
	name: "list",
	operands: "",
	summary: "list rollouts, newest first",
	options: {
		...FILTER_OPTIONS,
		limit: { value: "<number>", help: `how many (default ${DEFAULT_LIMIT})` },
		json: { help: "one JSON object per rollout" },
	},
	examples: [
		{ line: "paddock list", says: "the latest rollouts" },
		{ line: "paddock list --outcome failed --json", says: "what went wrong, for a program to read" },
	],
	async run(args, shell) {
		const limit = args.whole("limit", { least: 1, most: 100_000 }) ?? DEFAULT_LIMIT;
		const filter = toFilter(args);
		await using paddock = await openHere(loadConfig(shell.env, shell.directory), warnOn(shell));
		const { items, next } = await paddock.list(filter, { limit });
		if (args.has("json")) {
			for (const rollout of items) printLine(shell.stdout, JSON.stringify(rollout));
			return 0;
		}
		if (items.length === 0) {
			printLine(
				shell.stdout,
				"No rollouts here. Make one: paddock run examples/tasks/fizzbuzz --policy oracle",
			);
			return 0;
		}
		for (const line of tableOf(items)) printLine(shell.stdout, line);
		if (next !== null) printLine(shell.stdout, `There are more; --limit shows them.`);
		return 0;
	},
};

export function toFilter(args: Arguments): RolloutFilter {
	return {
		status: args.choice("status", RolloutStatus.options),
		outcome: args.choice("outcome", Outcome.options),
		taskId: args.text("task"),
		groupId: args.text("group"),
		batchId: args.text("batch"),
	};
}

function tableOf(rollouts: readonly RolloutRow[]): string[] {
	return layOut(
		[
			{ title: "rollout" },
			{ title: "task" },
			{ title: "created" },
			{ title: "state" },
			{ title: "reward", align: "right" },
			{ title: "calls", align: "right" },
			{ title: "tokens in + out", align: "right" },
			{ title: "time", align: "right" },
		],
		rollouts.map((rollout) => [
			rollout.id,
			oneLine(rollout.taskId),
			showTime(rollout.createdAt),
			rollout.outcome ?? (rollout.status === "running" ? rollout.phase : rollout.status),
			showReward(rollout.reward),
			showCount(rollout.calls),
			`${showCount(rollout.promptTokens)} + ${showCount(rollout.completionTokens)}`,
			rollout.startedAt === null
				? "–"
				: showSeconds(((rollout.finishedAt ?? Date.now()) - rollout.startedAt) / 1000),
		]),
	);
}
