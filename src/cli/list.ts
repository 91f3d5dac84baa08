import { loadConfig } from "../config.ts";
import { Outcome } from "../model/failure.ts";
import { type RolloutRow, RolloutStatus } from "../model/rollout.ts";
import type { Paddock } from "../paddock.ts";
import type { Page, RolloutFilter } from "../store/store.ts";
import type { Arguments, Command, Option } from "./command.ts";
import { modelNameOf } from "./model-name.ts";
import { openHere, warnOn } from "./open-here.ts";
import { printLine } from "./shell.ts";
import { showCount, showReward, showSeconds, showTime } from "./terminal/figures.ts";
import { oneLine, widthFor } from "./terminal/style.ts";
import { layOut } from "./terminal/table.ts";

const DEFAULT_LIMIT = 20;
const PAGE = 1000;

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
		model: {
			value: "<text>",
			help: "only rollouts whose model has this in its name: a policy, an endpoint, a model",
		},
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
		const { items, hasMore } = await select(paddock, filter, args.text("model"), limit);
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
		for (const line of tableOf(items, widthFor(shell.stdout))) printLine(shell.stdout, line);
		if (hasMore) printLine(shell.stdout, `There are more; --limit shows them.`);
		return 0;
	},
};

/** The store knows nothing of names of models: its pages are looked through until there are enough. */
async function select(
	paddock: Paddock,
	filter: RolloutFilter,
	model: string | undefined,
	limit: number,
): Promise<{ items: RolloutRow[]; hasMore: boolean }> {
	const wanted = model?.toLowerCase() ?? "";
	const items: RolloutRow[] = [];
	for (let cursor: string | null = null; ; ) {
		const page: Page<RolloutRow> = await paddock.list(filter, { limit: PAGE, ...(cursor && { cursor }) });
		items.push(...page.items.filter((row) => modelNameOf(row.endpoint).toLowerCase().includes(wanted)));
		cursor = page.next;
		if (cursor === null || items.length > limit) break;
	}
	return { items: items.slice(0, limit), hasMore: items.length > limit };
}

export function toFilter(args: Arguments): RolloutFilter {
	return {
		status: args.choice("status", RolloutStatus.options),
		outcome: args.choice("outcome", Outcome.options),
		taskId: args.text("task"),
		groupId: args.text("group"),
		batchId: args.text("batch"),
	};
}

function tableOf(rollouts: readonly RolloutRow[], width: number): string[] {
	return layOut(
		[
			{ title: "rollout" },
			{ title: "task" },
			{ title: "model" },
			{ title: "group" },
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
			oneLine(modelNameOf(rollout.endpoint)),
			rollout.groupId ?? "–",
			showTime(rollout.createdAt),
			rollout.outcome ?? (rollout.status === "running" ? rollout.phase : rollout.status),
			showReward(rollout.reward),
			showCount(rollout.calls),
			`${showCount(rollout.promptTokens)} + ${showCount(rollout.completionTokens)}`,
			rollout.startedAt === null
				? "–"
				: showSeconds(((rollout.finishedAt ?? Date.now()) - rollout.startedAt) / 1000),
		]),
		width,
	);
}
