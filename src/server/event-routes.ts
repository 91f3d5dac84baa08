import type { OpenAPIHono } from "@hono/zod-openapi";
import { type EventPage, getEvents, SSE } from "../api/trace.ts";
import type { RolloutEvent } from "../model/event.ts";
import { type HttpDoor, known, requireRow, stopWith } from "./http-door.ts";
import { mount } from "./mount.ts";
import { sseResponse } from "./stream.ts";

export function mountEvents(app: OpenAPIHono, door: HttpDoor): void {
	const { paddock, log, keepAliveMs } = door;

	mount(app, getEvents, async ({ params, query, headers, signal, accepts }) => {
		const { id } = params;
		const lastSeen = headers["last-event-id"];
		const after = lastSeen === undefined ? query.after : Number(lastSeen);
		const wantsStream = query.format ? query.format === "sse" : accepts(SSE);
		if (!wantsStream) return await pageOfEvents(door, id, { ...query, after }, signal);

		await requireRow(door, id);
		// 204 is how a browser's EventSource learns not to come back.
		const rest = await paddock.events(id, { after, limit: 1 });
		if (rest?.done && rest.items.length === 0) return new Response(null, { status: 204 });
		const stop = stopWith(door, signal);
		const events = paddock.follow(id, { after, signal: stop.signal });
		return sseResponse(numbered(events), { stop, log, keepAliveMs });
	});
}

/** A long poll ends early when the server closes: the caller asks again, elsewhere. */
async function pageOfEvents(
	door: HttpDoor,
	id: string,
	{ after, limit, wait_s }: { after: number; limit: number; wait_s: number },
	caller: AbortSignal,
): Promise<EventPage> {
	const stop = stopWith(door, caller);
	try {
		const options = { after, limit, waitMs: wait_s * 1000, signal: stop.signal };
		return known(await door.paddock.events(id, options), "rollout", id);
	} finally {
		stop.abort();
	}
}

async function* numbered(
	events: AsyncIterable<RolloutEvent>,
): AsyncGenerator<{ id: number; data: RolloutEvent }> {
	for await (const event of events) yield { id: event.seq, data: event };
}
