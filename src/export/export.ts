import type { Writable } from "node:stream";
import { UsageError } from "../errors.ts";
import type { ModelCall } from "../model/call.ts";
import type { Rollout, RolloutRow } from "../model/rollout.ts";
import type { Certificate } from "../model/sample.ts";
import type { RolloutFilter, Store } from "../store/store.ts";
import { readCalls } from "../store/trace/trace-log.ts";
import { Advantages } from "./advantage.ts";
import { type AtifOptions, toTrajectory } from "./atif.ts";
import { expectedOf } from "./certificate.ts";
import { type ChatRow, chatRows } from "./chat-rows.ts";
import { ParquetSink } from "./parquet.ts";
import { proxyTraceRecords } from "./proxy-trace.ts";
import { certify, type SampleRow, sampleRows, toTrlRow } from "./rows.ts";
import type { SampleOptions } from "./samples.ts";
import { Destination, LineSink, type RowSink } from "./sink.ts";

export const EXPORT_FORMATS = ["jsonl", "parquet", "trl", "atif", "messages", "openenv"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export interface ExportOptions extends Omit<SampleOptions, "expected">, AtifOptions {
	/** Also samples of rollouts whose certificate says no; the row says so. Never in `trl`. */
	includeUntrainable?: boolean | undefined;
	/** Only rollouts whose tokens were all sampled by these weights; what nobody said the weights of is left out. */
	weights?: readonly string[] | undefined;
	/** In `messages`: the history as the agent kept it, or as the model saw and said it. */
	view?: ChatRow["view"] | undefined;
	/** Only rollouts with at least this reward. */
	minReward?: number | undefined;
	signal?: AbortSignal | undefined;
	onProgress?: (report: ExportReport) => void;
}

export interface ExportReport {
	/** Rollouts that gave at least one row. */
	rollouts: number;
	rows: number;
	/** Rollouts that gave none, and the first hundred of them with the reason. */
	skipped: number;
	skips: { rolloutId: string; reason: string }[];
}

/** All that match, or the ones that are named. */
export type Selection = RolloutFilter | { ids: readonly string[] };

type ExportStore = Pick<Store, "list" | "get" | "group" | "readTrace">;

const PAGE = 100;
const NAMED_SKIPS = 100;

/**
 * Writes all matching rollouts that are done, oldest first, in memory that does not depend on how many there are. A file
 * appears under its name only when it is whole.
 */
export async function exportRollouts(
	store: ExportStore,
	selection: Selection,
	format: ExportFormat,
	destination: Writable | string,
	options: ExportOptions = {},
): Promise<ExportReport> {
	if (!EXPORT_FORMATS.includes(format))
		throw new UsageError(
			`no such format: ${format}; there are ${EXPORT_FORMATS.join(", ")}`,
			"unknown_format",
		);
	const advantages = new Advantages(store);
	const report: ExportReport = { rollouts: 0, rows: 0, skipped: 0, skips: [] };
	await using sink = await openSink(format, destination);
	for await (const rollout of doneRollouts(store, selection, options)) {
		const calls = () => readCalls(() => store.readTrace(rollout.id, rollout.attempt));
		const source = { rollout, calls, advantage: await advantages.of(rollout), options };
		let rows = 0;
		let reason = "it has no calls";
		for await (const row of rowsOf(format, source, (why) => (reason = why))) {
			options.signal?.throwIfAborted();
			await sink.write(row);
			rows++;
		}
		count(report, rollout, rows, reason);
		options.onProgress?.(report);
	}
	await sink.close();
	return report;
}

interface Source {
	rollout: Rollout;
	calls: () => AsyncIterable<ModelCall>;
	advantage: number | null;
	options: ExportOptions;
}

async function* rowsOf(
	format: ExportFormat,
	source: Source,
	skip: (reason: string) => void,
): AsyncGenerator<unknown> {
	const { rollout, calls, advantage, options } = source;
	if (format === "messages") yield* chatRows(rollout, calls(), advantage, options.view);
	else if (format === "openenv") yield* proxyTraceRecords(rollout, calls());
	else if (format === "atif") {
		const trajectory = await toTrajectory(rollout, calls(), options);
		if (trajectory) yield trajectory;
	} else yield* tokenRows(format, source, skip);
}

/** Formats with tokens: no row leaves before the rollout's certificate is known. */
async function* tokenRows(
	format: "jsonl" | "parquet" | "trl",
	{ rollout, calls, advantage, options }: Source,
	skip: (reason: string) => void,
): AsyncGenerator<unknown> {
	const isEveryRowWanted = options.includeUntrainable && format !== "trl";
	if (rollout.reward === null && !isEveryRowWanted) return skip("it has no reward");
	const sampling = { ...options, expected: expectedOf(rollout) };
	const certificate = await certify(calls, sampling);
	const isWanted = certificate.trainable || isEveryRowWanted;
	if (!isWanted) return skip(certificate.reasons.join("; "));
	const stale = staleness(certificate, options.weights);
	if (stale !== null) return skip(stale);
	for await (const row of sampleRows(rollout, calls, certificate, advantage, sampling)) {
		yield format === "trl" ? toTrlRow(row) : row;
	}
}

function staleness({ weightVersions }: Certificate, wanted: readonly string[] | undefined): string | null {
	if (wanted === undefined) return null;
	if (weightVersions.length === 0) return "nobody said which weights sampled it";
	const others = weightVersions.filter((version) => !wanted.includes(version));
	return others.length === 0 ? null : `it was sampled by weights ${others.join(", ")}`;
}

async function* doneRollouts(
	store: ExportStore,
	selection: Selection,
	{ minReward = Number.NEGATIVE_INFINITY, signal }: ExportOptions,
): AsyncGenerator<Rollout> {
	const isWanted = ({ reward }: { reward: number | null }) =>
		(reward ?? Number.NEGATIVE_INFINITY) >= minReward;
	for await (const id of selectedIds(store, selection, isWanted)) {
		signal?.throwIfAborted();
		const rollout = await store.get(id);
		if (rollout?.status === "done" && isWanted(rollout)) yield rollout;
	}
}

/** Rows are small, rollouts carry their task: what the row shows to be unwanted is never read whole. */
async function* selectedIds(
	store: ExportStore,
	selection: Selection,
	isWanted: (row: RolloutRow) => boolean,
): AsyncGenerator<string> {
	if ("ids" in selection) return yield* selection.ids;
	const filter = { ...selection, status: "done" as const };
	let cursor: string | undefined;
	do {
		const page = await store.list({ ...filter, kind: "rollout" }, { limit: PAGE, order: "oldest", cursor });
		yield* page.items.filter(isWanted).map(({ id }) => id);
		cursor = page.next ?? undefined;
	} while (cursor !== undefined);
}

async function openSink(format: ExportFormat, target: Writable | string): Promise<RowSink<unknown>> {
	const destination = await Destination.open(target);
	if (format !== "parquet") return new LineSink(destination);
	try {
		const sink: RowSink<SampleRow> = await ParquetSink.open(destination);
		return sink as RowSink<unknown>;
	} catch (error) {
		await destination[Symbol.asyncDispose]();
		throw error;
	}
}

function count(report: ExportReport, rollout: Rollout, rows: number, reason: string): void {
	report.rows += rows;
	if (rows > 0) report.rollouts++;
	else {
		report.skipped++;
		if (report.skips.length < NAMED_SKIPS) report.skips.push({ rolloutId: rollout.id, reason });
	}
}
