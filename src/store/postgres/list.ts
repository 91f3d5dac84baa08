import type { Sql } from "../database.ts";
import type { FoundFilter } from "../filter.ts";
import { afterCursor, orderBy, type Walk } from "../order.ts";
import type { RolloutColumns } from "../rows.ts";
import { select } from "./select.ts";

/** The rows that match, in the order asked for, from the cursor on. */
export function listRows(sql: Sql, filter: FoundFilter, walk: Walk): Promise<RolloutColumns[]> {
	const { from, where, values } = select(filter);
	const after = afterCursor(walk, "r.position");
	const conditions = [...where, ...after.map((condition) => condition.sql)];
	const order = orderBy(walk, "r.position");
	// The body is joined last, for the page alone.
	return sql.all<RolloutColumns>(
		`SELECT r.*, b.terms FROM (
			SELECT r.* FROM ${from} ${conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : ""} ${order} LIMIT ?
		) r JOIN rollout_bodies b ON b.position = r.position ${order}`,
		...values,
		...after.flatMap((condition) => condition.values),
		walk.limit,
	);
}
