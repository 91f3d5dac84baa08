import type { FoundFilter } from "../filter.ts";
import { afterCursor, orderBy, type Walk } from "../order.ts";
import type { RolloutColumns } from "../rows.ts";
import { select } from "./select.ts";
import type { Statements } from "./statements.ts";

/** The rows that match, in the order asked for, from the cursor on. */
export function listRows(sql: Statements, filter: FoundFilter, walk: Walk): RolloutColumns[] {
	const { from, position, where, values } = select(sql, filter, walk.column);
	const after = afterCursor(walk, position);
	const conditions = [...where, ...after.map((condition) => condition.sql)];
	// The body is joined last, for the page alone.
	return sql.all<RolloutColumns>(
		`SELECT r.*, b.terms FROM ${from} CROSS JOIN rollout_bodies b ON b.position = r.position
		${conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : ""}
		${orderBy(walk, position)} LIMIT ?`,
		...values,
		...after.flatMap((condition) => condition.values),
		walk.limit,
	);
}
