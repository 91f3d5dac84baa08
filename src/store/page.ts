import { UsageError } from "../errors.ts";
import type { Page } from "./store.ts";

/** Cursors name a position, never an offset: what is inserted meanwhile neither repeats nor hides anything. */
export function readCursor(cursor: string | undefined): number | null {
	if (cursor === undefined) return null;
	const position = Number(Buffer.from(cursor, "base64url").toString("latin1"));
	if (!Number.isSafeInteger(position) || position < 1) {
		throw new UsageError("The cursor is not one that a list answered with.", "bad_cursor");
	}
	return position;
}

/** Of `limit + 1` rows that were asked for, the last one only tells that there is a next page. */
export function toPage<Row extends { position: number }, T>(
	rows: Row[],
	limit: number,
	convert: (row: Row) => T,
): Page<T> {
	const shown = rows.slice(0, limit);
	const last = shown.at(-1);
	const next =
		rows.length > limit && last ? Buffer.from(String(last.position), "latin1").toString("base64url") : null;
	return { items: shown.map(convert), next };
}
