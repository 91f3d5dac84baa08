import { loadConfig } from "../config.ts";
import { UsageError } from "../errors.ts";
import { Outcome } from "../model/failure.ts";
import { RolloutOrder, type RolloutRow, RolloutStatus } from "../model/rollout.ts";
import type { RolloutFilter } from "../store/store.ts";
import type { Arguments, Command, Option } from "./command.ts";
import { firstCommand } from "./help.ts";
import { modelNameOf } from "./model-name.ts";
import { openHere, warnOn } from "./open-here.ts";
import { printLine } from "./shell.ts";
import { showCount, showReward, showSeconds, showTime } from "./terminal/figures.ts";
import { oneLine, widthFor } from "./terminal/style.ts";
import { layOut } from "./terminal/table.ts";

const DEFAULT_LIMIT = 20;

/** Which rollouts are meant, for every command that can mean many. */
export const FILTER_OPTIONS: Record<string, Option> = {
	status: { value: "<status>", choices: RolloutStatus.options, help: RolloutStatus.options.join(", ") },
	outcome: { value: "<outcome>", choices: Outcome.options, help: Outcome.options.join(", ") },
	task: { value: "<id>", help: "only rollouts of this task" },
	group: { value: "<id>", help: "only rollouts of this group" },
	batch: { value: "<id>", help: "only rollouts of this batch" },
	label: { value: "<name=value>", help: "only rollouts that were given this label" },
	model: {
		value: "<text>",
		help: "only rollouts whose model has this in its name: a policy, an endpoint, a model",
	},
	text: {
		value: "<words>",
		help: "only rollouts with these words in id, task, model, labels or instruction",
	},
	"min-reward": { value: "<number>", help: "only rollouts with at least this reward" },
	"max-reward": { value: "<number>", help: "only rollouts with at most this reward" },
	since: { value: "<time>", help: "only rollouts submitted since then: a date, or 30m, 2h, 7d ago" },
	until: { value: "<time>", help: "only rollouts submitted until then" },
};

export const list: Command = {
	name: "list",
	operands: "",
	summary: "list rollouts, newest first",
	options: {
		...FILTER_OPTIONS,
		order: {
			value: "<order>",
			choices: RolloutOrder.options,
			help: `${RolloutOrder.options.join(", ")} (default newest)`,
		},
		limit: { value: "<number>", help: `how many (default ${DEFAULT_LIMIT})` },
		json: { help: "one JSON object per rollout" },
	},
	examples: [
		{ line: "paddock list", says: "the latest rollouts" },
		{ line: "paddock list --model qwen --since 2h --order lowest-reward", says: "what it is worst at" },
		{ line: "paddock list --outcome failed --json", says: "what went wrong, for a program to read" },
	],
	async run(args, shell) {
		const limit = args.whole("limit", { least: 1, most: 100_000 }) ?? DEFAULT_LIMIT;
		const filter = toFilter(args);
		const order = args.choice("order", RolloutOrder.options);
		await using paddock = await openHere(loadConfig(shell.env, shell.directory), warnOn(shell));
		const { items, next } = await paddock.list(filter, { limit, order });
		if (args.has("json")) {
			for (const rollout of items) printLine(shell.stdout, JSON.stringify(rollout));
			return 0;
		}
		if (items.length === 0) {
			const isAll = Object.values(filter).every((value) => value === undefined);
			const make = `Make one: ${firstCommand()}`;
			printLine(shell.stdout, isAll ? `No rollouts here. ${make}` : `No rollouts match.`);
			return 0;
		}
		for (const line of tableOf(items, widthFor(shell.stdout))) printLine(shell.stdout, line);
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
		label: toLabel(args.text("label")),
		model: args.text("model"),
		text: args.text("text"),
		minReward: args.number("min-reward"),
		maxReward: args.number("max-reward"),
		since: args.time("since"),
		until: args.time("until"),
	};
}

function toLabel(text: string | undefined): RolloutFilter["label"] {
	if (text === undefined) return undefined;
	const at = text.indexOf("=");
	if (at < 1) throw new UsageError(`--label wants name=value, not "${text}".`, "bad_option");
	return { name: text.slice(0, at), value: text.slice(at + 1) };
}

/** How it ended, or how far it is; of a failure also which, since that is what a list of them is looked at for. */
export function stateOf({
	outcome,
	failure,
	status,
	phase,
}: Pick<RolloutRow, "outcome" | "failure" | "status" | "phase">): string {
	if (outcome === null) return status === "running" ? phase : status;
	return failure === null ? outcome : `${outcome}: ${failure.code}`;
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
			stateOf(rollout),
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
