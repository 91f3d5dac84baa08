import type { Sql, SqlValue } from "./database.ts";
import type { RolloutFilter } from "./store.ts";
import { wordsOf } from "./words.ts";

/** A filter as databases are asked: names of models found, texts taken apart. */
export interface FoundFilter extends Omit<RolloutFilter, "model" | "text"> {
	models?: string[] | undefined;
	words?: string[] | undefined;
	/** When it ended, for statistics. */
	finished?: { since: number; until: number } | undefined;
}

/** What is asked of one column of `rollouts`. */
export interface ColumnTest {
	column: string;
	/** What stands behind the column, each with its values. */
	tests: { sql: string; values: SqlValue[] }[];
	/** Its index hands out rows by position: one value was asked for, not a range. */
	isOrdered: boolean;
}

/** Null when nothing can match. */
export async function findFilter(sql: Sql, filter: RolloutFilter): Promise<FoundFilter | null> {
	const { model, text, ...rest } = filter;
	const words = wordsOf(text ?? "");
	const found: FoundFilter = { ...rest, words: words.length > 0 ? words : undefined };
	if (model === undefined) return found;
	const models = await modelsLike(sql, model);
	return models.length === 0 ? null : { ...found, models };
}

/** The one of this name, or else all that have it in theirs, whatever the case. There are few models. */
async function modelsLike(sql: Sql, wanted: string): Promise<string[]> {
	const names = (await sql.all<{ name: string }>("SELECT name FROM models")).map(({ name }) => name);
	if (names.includes(wanted)) return [wanted];
	return names.filter((name) => name.toLowerCase().includes(wanted.toLowerCase()));
}

/** Written out: only so is the index of conversations found. */
export function kindTests({ kind }: FoundFilter): string[] {
	return kind === undefined ? [] : [`r.kind = '${kind}'`];
}

/** The rarest kind first. */
export function columnTests(filter: FoundFilter): ColumnTest[] {
	const { models = [], finished } = filter;
	return [
		equal("group_id", filter.groupId),
		equal("batch_id", filter.batchId),
		equal("task_id", filter.taskId),
		equal("outcome", filter.outcome),
		models.length > 1 ? among("model", models) : equal("model", models[0]),
		equal("status", filter.status),
		range("reward", filter.minReward, filter.maxReward),
		range("duration_s", filter.minDurationS, filter.maxDurationS),
		range("created_at", filter.since, filter.until),
		range("finished_at", finished?.since, finished?.until),
	].filter(({ tests }) => tests.length > 0);
}

function equal(column: string, value: string | undefined): ColumnTest {
	return { column, tests: value === undefined ? [] : [{ sql: "= ?", values: [value] }], isOrdered: true };
}

function among(column: string, values: string[]): ColumnTest {
	const sql = `IN (${values.map(() => "?").join(", ")})`;
	return { column, tests: [{ sql, values }], isOrdered: false };
}

/** Both ends belong to it. */
function range(column: string, least: number | undefined, most: number | undefined): ColumnTest {
	const tests = [
		...(least === undefined ? [] : [{ sql: ">= ?", values: [least] }]),
		...(most === undefined ? [] : [{ sql: "<= ?", values: [most] }]),
	];
	return { column, tests, isOrdered: false };
}
