import { UsageError } from "../errors.ts";
import type { RolloutOrder } from "../model/rollout.ts";

const ORDERS = {
	newest: { column: "position", isDescending: true },
	oldest: { column: "position", isDescending: false },
	"highest-reward": { column: "reward", isDescending: true },
	"lowest-reward": { column: "reward", isDescending: false },
	longest: { column: "duration_s", isDescending: true },
	shortest: { column: "duration_s", isDescending: false },
	"most-tokens": { column: "length", isDescending: true },
	"fewest-tokens": { column: "length", isDescending: false },
} as const satisfies Record<RolloutOrder, Pick<Walk, "column" | "isDescending">>;

/** What a page goes on from: the last row's position, and its figure when the list is sorted by one. */
export interface Cursor {
	position: number;
	figure: number | null;
}

/** Where a list is read: in which order, after which row, how much of it. */
export interface Walk {
	column: "position" | "reward" | "duration_s" | "length";
	isDescending: boolean;
	after: Cursor | null;
	limit: number;
}

export function toWalk(order: RolloutOrder, cursor: string | undefined, limit: number): Walk {
	const { column, isDescending } = ORDERS[order];
	const after = cursor === undefined ? null : readCursor(cursor, column !== "position");
	return { column, isDescending, after, limit };
}

/** The condition that a row comes after the cursor, and its values. `position`: where the position is read. */
export function afterCursor(
	{ column, isDescending, after }: Walk,
	position: string,
): { sql: string; values: number[] }[] {
	const figure = column === "position" ? [] : [{ sql: `r.${column} IS NOT NULL`, values: [] }];
	if (after === null) return figure;
	const beyond = isDescending ? "<" : ">";
	if (after.figure === null) return [{ sql: `${position} ${beyond} ?`, values: [after.position] }];
	const sql = `(r.${column}, r.position) ${beyond} (?, ?)`;
	return [...figure, { sql, values: [after.figure, after.position] }];
}

export function orderBy({ column, isDescending }: Walk, position: string): string {
	const direction = isDescending ? "DESC" : "ASC";
	if (column === "position") return `ORDER BY ${position} ${direction}`;
	return `ORDER BY r.${column} ${direction}, r.position ${direction}`;
}

/** Cursors name a place, never an offset: what is inserted meanwhile neither repeats nor hides anything. */
export function writeCursor({ position, figure }: Cursor): string {
	const text = figure === null ? String(position) : `${position} ${figure}`;
	return Buffer.from(text, "latin1").toString("base64url");
}

function readCursor(cursor: string, hasFigure: boolean): Cursor {
	const [position, figure, ...more] = Buffer.from(cursor, "base64url").toString("latin1").split(" ");
	const read = { position: Number(position), figure: figure === undefined ? null : Number(figure) };
	const isOurs =
		more.length === 0 &&
		Number.isSafeInteger(read.position) &&
		read.position >= 1 &&
		(read.figure !== null) === hasFigure &&
		(read.figure === null || (figure !== "" && Number.isFinite(read.figure)));
	if (!isOurs) throw new UsageError("The cursor is not one that a list answered with.", "bad_cursor");
	return read;
}
