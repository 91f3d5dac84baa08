import { loadConfig } from "../config.ts";
import { UsageError } from "../errors.ts";
import type { ExportFormat, ExportReport, Selection } from "../export/export.ts";
import type { Paddock } from "../paddock.ts";
import type { Command } from "./command.ts";
import { FILTER_OPTIONS, toFilter } from "./list.ts";
import { openHere, warnOn } from "./open-here.ts";
import { onInterrupt } from "./run/interrupt.ts";
import { printLine } from "./shell.ts";
import { findRollout } from "./show/show.ts";
import { plural } from "./terminal/figures.ts";
import { oneLine } from "./terminal/style.ts";

const FORMATS = [
	"jsonl",
	"parquet",
	"trl",
	"atif",
	"messages",
	"openenv",
] as const satisfies readonly ExportFormat[];

const INTERVENTIONS = ["keep", "mask", "drop"] as const;
const VIEWS = ["agent", "model"] as const;

export const exportCommand: Command = {
	name: "export",
	operands: "[<rollout>…]",
	summary: "write finished rollouts as training data or trajectories",
	details: `Without operands: all that match. Only rollouts whose tokens are proven exact become samples; the others are
counted, with the reason. Formats: jsonl and parquet (samples: ids, mask, logprobs), trl (rows for TRL), atif
(trajectories), messages (chat), openenv (proxy traces).`,
	options: {
		format: { value: "<format>", choices: FORMATS, help: `${FORMATS.join(", ")} (default jsonl)` },
		out: { value: "<file>", help: "where to; default stdout (not for parquet)" },
		...FILTER_OPTIONS,
		weights: {
			value: "<version,…>",
			help: "only samples of these weights, as the engine or the trainer named them",
		},
		interventions: {
			value: "<what>",
			choices: INTERVENTIONS,
			help: "calls after a person steered: keep (default), mask, drop",
		},
		view: {
			value: "<whose>",
			choices: VIEWS,
			help: "for messages: the history as the agent kept it (default), or as the model saw and said it (model)",
		},
		"include-untrainable": {
			help: "also samples whose tokens are not proven or that earned no reward; each row says so",
		},
	},
	examples: [
		{
			line: "paddock export --format trl --min-reward 1 > solved.jsonl",
			says: "every solved rollout as TRL rows",
		},
		{ line: "paddock export last --format parquet --out sample.parquet", says: "the newest rollout" },
	],
	async run(args, shell) {
		const format = args.choice("format", FORMATS) ?? "jsonl";
		const out = args.text("out");
		const minReward = args.number("min-reward");
		if (format === "parquet" && out === undefined) {
			throw new UsageError("--format parquet needs --out <file>.", "bad_option");
		}
		await using paddock = await openHere(loadConfig(shell.env, shell.directory), warnOn(shell));
		const stop = new AbortController();
		using _interrupts = onInterrupt(() => stop.abort());
		const selection = args.operands.length === 0 ? toFilter(args) : await named(paddock, args.operands);
		const report = await paddock.export(selection, format, out ?? process.stdout, {
			signal: stop.signal,
			includeUntrainable: args.has("include-untrainable"),
			interventions: args.choice("interventions", INTERVENTIONS),
			minReward,
			view: args.choice("view", VIEWS),
			weights: args.text("weights")?.split(","),
		});
		for (const line of describe(report, format, out)) printLine(shell.stderr, line);
		return 0;
	},
};

/** The rollouts that were named; each of them has ended. */
async function named(paddock: Paddock, operands: readonly string[]): Promise<Selection> {
	const ids: string[] = [];
	for (const operand of operands) {
		const rollout = await paddock.row(await findRollout(paddock, operand));
		if (rollout?.status !== "done") {
			throw new UsageError(`Rollout "${operand}" has not ended yet.`, "not_done");
		}
		ids.push(rollout.id);
	}
	return { ids };
}

function describe(report: ExportReport, format: ExportFormat, out: string | undefined): string[] {
	const lines = [
		`${plural(report.rows, "row")} of ${plural(report.rollouts, "rollout")} as ${format}${out === undefined ? "" : ` in ${out}`}`,
	];
	if (report.skipped > 0) lines.push(`${plural(report.skipped, "rollout")} left out:`);
	for (const skip of report.skips.slice(0, 10)) lines.push(oneLine(`  ${skip.rolloutId}: ${skip.reason}`));
	if (report.skipped > 10) lines.push(`  and ${report.skipped - 10} more`);
	return lines;
}
