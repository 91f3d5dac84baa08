import { toWalk, writeCursor } from "./order.ts";
import type { Page } from "./store.ts";

/** Of a list that goes by position. */
export function readCursor(cursor: string | undefined): number | null {
	return toWalk("newest", cursor, 0).after?.position ?? null;
}

/** Of `limit + 1` rows that were asked for, the last one only tells that there is a next page. */
export function toPage<Row extends { position: number }, T>(
	rows: Row[],
	limit: number,
	convert: (row: Row) => T,
	figureOf: (row: Row) => number | null = () => null,
): Page<T> {
	const shown = rows.slice(0, limit);
	const last = shown.at(-1);
	const next =
		rows.length > limit && last ? writeCursor({ position: last.position, figure: figureOf(last) }) : null;
	return { items: shown.map(convert), next };
}
