import type { RolloutColumns } from "../rows.ts";
import type { RolloutFilter } from "../store.ts";
import type { Statements } from "./statements.ts";

/** An index that finds at most this many rows is worth following, whatever the other filters are. */
const FEW = 2_000;

const COLUMNS = {
	groupId: "group_id",
	batchId: "batch_id",
	taskId: "task_id",
	outcome: "outcome",
	status: "status",
} as const;

interface Condition {
	column: string;
	value: string;
}

/**
 * The rows that match, in order of position, from the cursor on. One index leads and gives that order: the first
 * whose value is rare, which a look at a few of its entries tells; SQLite itself knows only averages.
 */
export function listRows(
	sql: Statements,
	filter: RolloutFilter,
	page: { cursor: number | null; oldest: boolean; limit: number },
): RolloutColumns[] {
	const conditions = Object.entries(COLUMNS).flatMap(([name, column]): Condition[] => {
		const value = filter[name as keyof typeof COLUMNS];
		return value === undefined ? [] : [{ column, value }];
	});
	const several = conditions.length + (filter.label ? 1 : 0) > 1;
	const leader = several ? conditions.find((condition) => isRare(sql, condition)) : conditions[0];
	const byLabel = filter.label !== undefined && leader === undefined;
	const position = byLabel ? "l.position" : "r.position";
	const labelled = byLabel
		? "l.name = ? AND l.value = ?"
		: "EXISTS (SELECT 1 FROM labels l WHERE l.name = ? AND l.value = ? AND l.position = r.position)";
	const where = [
		// Written out: only so is the index of conversations found.
		...(filter.kind === undefined ? [] : [`r.kind = '${filter.kind}'`]),
		...(filter.label ? [labelled] : []),
		// The plus keeps SQLite from following that column's index.
		...conditions.map((condition) => `${leader && condition !== leader ? "+" : ""}r.${condition.column} = ?`),
		...(page.cursor === null ? [] : [`${position} ${page.oldest ? ">" : "<"} ?`]),
	];
	// The body is joined last, for the page alone.
	return sql.all<RolloutColumns>(
		`SELECT r.*, b.terms
		FROM ${byLabel ? "labels l CROSS JOIN rollouts r USING (position)" : "rollouts r"}
		CROSS JOIN rollout_bodies b ON b.position = r.position
		${where.length > 0 ? `WHERE ${where.join(" AND ")}` : ""}
		ORDER BY ${position} ${page.oldest ? "ASC" : "DESC"} LIMIT ?`,
		...(filter.label ? [filter.label.name, filter.label.value] : []),
		...conditions.map((condition) => condition.value),
		...(page.cursor === null ? [] : [page.cursor]),
		page.limit,
	);
}

function isRare(sql: Statements, { column, value }: Condition): boolean {
	const row = sql.get<{ count: number }>(
		`SELECT count(*) AS count FROM (SELECT 1 FROM rollouts WHERE ${column} = ? LIMIT ${FEW})`,
		value,
	);
	return row!.count < FEW;
}
