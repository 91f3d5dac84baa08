import type { Sql, SqlValue } from "../database.ts";
import type { RolloutColumns } from "../rows.ts";
import type { RolloutFilter } from "../store.ts";

/** The rows that match, in order of position, from the cursor on. */
export function listRows(
	sql: Sql,
	filter: RolloutFilter,
	page: { cursor: number | null; oldest: boolean; limit: number },
): Promise<RolloutColumns[]> {
	const conditions: [string, SqlValue | undefined][] = [
		["r.status = ?", filter.status],
		["r.outcome = ?", filter.outcome],
		["r.task_id = ?", filter.taskId],
		["r.group_id = ?", filter.groupId],
		["r.batch_id = ?", filter.batchId],
		[`r.position ${page.oldest ? ">" : "<"} ?`, page.cursor ?? undefined],
		["l.name = ?", filter.label?.name],
		["l.value = ?", filter.label?.value],
	];
	const asked = conditions.filter((condition): condition is [string, SqlValue] => condition[1] !== undefined);
	const from = filter.label ? "rollouts r JOIN labels l ON l.position = r.position" : "rollouts r";
	// Written out: only so is the index of conversations found.
	const ofKind = filter.kind === undefined ? [] : [`r.kind = '${filter.kind}'`];
	const all = [...ofKind, ...asked.map(([condition]) => condition)];
	const where = all.length > 0 ? `WHERE ${all.join(" AND ")}` : "";
	const order = `ORDER BY r.position ${page.oldest ? "ASC" : "DESC"}`;
	// The body is joined last, for the page alone.
	return sql.all<RolloutColumns>(
		`SELECT r.*, b.terms FROM (SELECT r.* FROM ${from} ${where} ${order} LIMIT ?) r
		JOIN rollout_bodies b ON b.position = r.position ${order}`,
		...asked.map(([, value]) => value),
		page.limit,
	);
}
