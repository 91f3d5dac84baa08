import type { OpenAPIHono } from "@hono/zod-openapi";
import { type EventPage, getEvents, SSE } from "../api/trace.ts";
import { toTimerMs } from "../model/duration.ts";
import type { RolloutEvent } from "../model/event.ts";
import { type Door, requireRow, stopWith } from "./door.ts";
import { mount } from "./mount.ts";
import { sseResponse } from "./stream.ts";

export function mountEvents(app: OpenAPIHono, door: Door): void {
	const { paddock, log, keepAliveMs } = door;

	mount(app, getEvents, async ({ params, query, headers, signal, accepts }) => {
		const rollout = await requireRow(door, params.id);
		const lastSeen = headers["last-event-id"];
		const after = lastSeen === undefined ? query.after : Number(lastSeen);
		const wantsStream = query.format ? query.format === "sse" : accepts(SSE);
		if (!wantsStream) return await pageOfEvents(door, { ...query, id: params.id, after, signal });

		// 204 is how a browser's EventSource learns not to come back.
		if (rollout.status === "done" && !(await hasEventsAfter(door, params.id, after)))
			return new Response(null, { status: 204 });
		const stop = stopWith(door, signal);
		const events = paddock.follow(params.id, { after, signal: stop.signal });
		return sseResponse(numbered(events), { stop, log, keepAliveMs });
	});
}

async function* numbered(
	events: AsyncIterable<RolloutEvent>,
): AsyncGenerator<{ id: number; data: RolloutEvent }> {
	for await (const event of events) yield { id: event.seq, data: event };
}

async function hasEventsAfter(door: Door, id: string, after: number): Promise<boolean> {
	return (await door.paddock.store.events(id, { after, limit: 1 })).length > 0;
}

interface EventQuery {
	id: string;
	after: number;
	limit: number;
	wait_s: number;
	signal: AbortSignal;
}

/** What there is after `after`; when that is nothing yet, waits for a change until time is up. */
async function pageOfEvents(door: Door, query: EventQuery): Promise<EventPage> {
	const { store } = door.paddock;
	const { id, after, limit } = query;
	const stop = stopWith(door, query.signal);
	const timer = setTimeout(() => stop.abort(), toTimerMs(query.wait_s * 1000));
	let wake = () => {};
	using _ = store.watch(id, () => wake());
	stop.signal.addEventListener("abort", () => wake());
	try {
		for (;;) {
			const changed = new Promise<void>((resolve) => {
				wake = resolve;
			});
			// Asked before the events are read: whatever is over by now has all its events.
			const isOver = (await store.row(id))?.status === "done";
			const items = await store.events(id, { after, limit });
			const last = items.at(-1);
			const done = last?.type === "rollout-end" || (!last && isOver);
			if (last || done || query.wait_s === 0 || stop.signal.aborted)
				return { items, next: last?.seq ?? after, done };
			await changed;
		}
	} finally {
		clearTimeout(timer);
		stop.abort();
	}
}
