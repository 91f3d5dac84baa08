import type { Statistics, StatisticsBucket } from "../model/statistics.ts";
import type { Sql, SqlValue } from "./database.ts";

/** Matching rows `r` of rollouts. */
export interface Source {
	from: string;
	where: string[];
	values: SqlValue[];
}

export interface StatisticsOptions {
	/** When it ended; without these, all there is. */
	since?: number | undefined;
	until?: number | undefined;
	/** At most so many. */
	buckets: number;
}

/** So many are counted at most: what one question may cost does not grow with the store. */
const COUNTED = 20_000;
const MODELS = 100;
const REWARD_BARS = 20;
const DURATION_EDGES_S = [0, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600];
const PHASES = ["create", "setup", "agent", "verify", "collect"] as const;

const [SECOND, MINUTE, HOUR, DAY] = [1000, 60_000, 3_600_000, 86_400_000];
/** How long a bucket may be, so that its edges are such as a clock shows. */
const WIDTHS_MS = [
	...[1, 2, 5, 10, 30].map((count) => count * SECOND),
	...[1, 2, 5, 10, 30].map((count) => count * MINUTE),
	...[1, 2, 3, 6, 12].map((count) => count * HOUR),
	...[1, 2, 7, 14, 30, 90, 365].map((count) => count * DAY),
];

/** Three questions: the bounds, the course within them, the distributions. */
export async function statisticsOf(
	sql: Sql,
	source: Source,
	options: StatisticsOptions,
): Promise<Statistics> {
	const { since, until, buckets } = options;
	const bounds = await boundsOf(sql, source);
	if (bounds === null) return noStatistics(options);
	const from = since ?? bounds.first;
	const to = Math.max(from, until ?? bounds.last);
	const bucketMs = WIDTHS_MS.find((width) => Math.floor(to / width) - Math.floor(from / width) < buckets);
	const width = bucketMs ?? Math.ceil((to - from + 1) / buckets);
	return {
		since: Math.floor(from / width) * width,
		until: to,
		bucketMs: width,
		counted: bounds.count,
		isCut: bounds.count === COUNTED,
		buckets: await courseOf(sql, source, width),
		...(await distributionsOf(sql, source, Math.min(0, bounds.least ?? 0), Math.max(1, bounds.most ?? 1))),
	};
}

export function noStatistics({ since = 0, until = 0 }: StatisticsOptions): Statistics {
	const empty = { buckets: [], rewards: [], durations: [], models: [] };
	return { since, until, bucketMs: 0, counted: 0, isCut: false, ...empty };
}

/** Only the columns that a question is about: the rows are wide. */
function rowsOf({ from, where }: Source, columns: readonly string[]): string {
	const asked = columns.map((column) => `r.${column}`).join(", ");
	return `(SELECT ${asked} FROM ${from} WHERE ${where.join(" AND ")} ORDER BY r.finished_at DESC LIMIT ${COUNTED}) r`;
}

interface Bounds {
	count: number;
	first: number;
	last: number;
	least: number | null;
	most: number | null;
}

async function boundsOf(sql: Sql, source: Source): Promise<Bounds | null> {
	const [bounds] = await sql.all<Bounds>(
		`SELECT count(*) AS count, min(r.finished_at) AS first, max(r.finished_at) AS last,
			min(r.reward) AS least, max(r.reward) AS most FROM ${rowsOf(source, ["finished_at", "reward"])}`,
		...source.values,
	);
	return bounds === undefined || bounds.count === 0 ? null : bounds;
}

const COURSE = [
	...["finished_at", "outcome", "reward", "duration_s", "started_at", "created_at"],
	...[...PHASES.map((phase) => `${phase}_s`), "calls", "prompt_tokens", "completion_tokens"],
];

type CourseRow = Record<string, number | null> & { bucket: number; outcome: string };

async function courseOf(sql: Sql, source: Source, width: number): Promise<StatisticsBucket[]> {
	const sum = (expression: string, name: string) =>
		`CAST(sum(${expression}) AS double precision) AS ${name}_sum, count(${expression}) AS ${name}_count`;
	const figures = [
		sum("r.reward", "reward"),
		sum("CASE WHEN r.reward >= 1 THEN 1 END", "solved"),
		sum("r.duration_s", "duration"),
		sum("(r.started_at - r.created_at) / 1000.0", "queued"),
		...PHASES.map((phase) => sum(`r.${phase}_s`, phase)),
		sum("r.calls", "calls"),
		sum("r.prompt_tokens", "prompt"),
		sum("r.completion_tokens", "completion"),
	];
	const rows = await sql.all<CourseRow>(
		`SELECT CAST(floor(r.finished_at / ${width}) AS bigint) AS bucket, r.outcome AS outcome, count(*) AS done,
			${figures.join(", ")} FROM ${rowsOf(source, COURSE)} GROUP BY 1, 2 ORDER BY 1`,
		...source.values,
	);
	const buckets = Map.groupBy(rows, (row) => row.bucket);
	return [...buckets].map(([bucket, some]) => toBucket(bucket * width, some));
}

function toBucket(at: number, rows: CourseRow[]): StatisticsBucket {
	const total = (column: string) => rows.reduce((sum, row) => sum + (row[column] ?? 0), 0);
	const mean = (name: string) => {
		const count = total(`${name}_count`);
		return count === 0 ? null : total(`${name}_sum`) / count;
	};
	const phases = ["queued", ...PHASES].flatMap((phase) => {
		const seconds = mean(phase);
		return seconds === null ? [] : [[phase, seconds] as const];
	});
	return {
		at,
		done: total("done"),
		outcomes: Object.fromEntries(rows.map((row) => [row.outcome, row.done ?? 0])),
		rewarded: total("reward_count"),
		rewardMean: mean("reward"),
		solved: total("solved_count"),
		durationMeanS: mean("duration"),
		phasesMeanS: Object.fromEntries(phases),
		calls: total("calls_sum"),
		promptTokens: total("prompt_sum"),
		completionTokens: total("completion_sum"),
	};
}

interface DistributionRow {
	reward: number | null;
	duration: number | null;
	model: string;
	count: number;
}

async function distributionsOf(
	sql: Sql,
	source: Source,
	least: number,
	most: number,
): Promise<Pick<Statistics, "rewards" | "durations" | "models">> {
	const step = (most - least) / REWARD_BARS;
	const edges = DURATION_EDGES_S.map((edge, index) => `WHEN r.duration_s >= ${edge} THEN ${index}`).reverse();
	const rows = await sql.all<DistributionRow>(
		`SELECT CAST(floor((r.reward - ?) / ?) AS bigint) AS reward, CASE ${edges.join(" ")} END AS duration,
			r.model AS model, count(*) AS count FROM ${rowsOf(source, ["finished_at", "reward", "duration_s", "model"])}
		GROUP BY 1, 2, 3`,
		...[least, step, ...source.values],
	);
	const edge = (index: number) => least + ((most - least) * index) / REWARD_BARS;
	const rewards = Array.from({ length: REWARD_BARS }, (_, index) => ({
		...{ from: edge(index), to: edge(index + 1), count: 0 },
	}));
	const durations = DURATION_EDGES_S.map((from, index) => ({
		...{ from, to: DURATION_EDGES_S[index + 1] ?? null, count: 0 },
	}));
	const models = new Map<string, number>();
	for (const { reward, duration, model, count } of rows) {
		if (reward !== null) rewards[Math.min(reward, REWARD_BARS - 1)]!.count += count;
		if (duration !== null) durations[duration]!.count += count;
		models.set(model, (models.get(model) ?? 0) + count);
	}
	const byCount = [...models].map(([model, count]) => ({ model, count })).sort((a, b) => b.count - a.count);
	return { rewards, durations, models: byCount.slice(0, MODELS) };
}
