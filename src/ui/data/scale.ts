import type { Span } from "./story.ts";

const STEPS_S = [
	0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400,
];
const TICKS = 7;

/** Round moments along a span of time, from 0; the last keeps clear of the end. */
export function ticksOf(seconds: number): number[] {
	const step = STEPS_S.find((each) => seconds / each <= TICKS) ?? Math.ceil(seconds / TICKS);
	const count = Math.floor((seconds * 0.97) / step);
	return Array.from({ length: count + 1 }, (_, index) => Number((index * step).toFixed(3)));
}

/** What goes on at the same time stands in rows of its own. */
export function inRows(spans: readonly Span[]): Span[][] {
	const rows: Span[][] = [];
	for (const span of spans.toSorted((one, other) => one.startAt - other.startAt)) {
		const row = rows.find((each) => (each.at(-1)!.endAt ?? Infinity) <= span.startAt);
		if (row === undefined) rows.push([span]);
		else row.push(span);
	}
	return rows;
}
