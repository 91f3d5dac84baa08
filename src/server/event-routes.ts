import type { OpenAPIHono } from "@hono/zod-openapi";
import type { z } from "zod";
import { type EventHeaders, type EventQuery, getEvents, SSE } from "../api/trace.ts";
import type { Paddock } from "../paddock.ts";
import { type HttpDoor, known, stopWith } from "./http-door.ts";
import { mount } from "./mount.ts";
import { sseResponse } from "./stream.ts";

export function mountEvents(app: OpenAPIHono, door: HttpDoor): void {
	const { paddock } = door;
	mount(app, getEvents, (call) => {
		const { id } = call.params;
		return serveEvents(door, call, {
			page: async (options) => known(await paddock.events(id, options), "rollout", id),
			follow: (options) => paddock.follow(id, options),
		});
	});
}

interface EventCall {
	query: z.output<typeof EventQuery>;
	headers: z.output<typeof EventHeaders>;
	signal: AbortSignal;
	accepts(mediaType: string): boolean;
}

/** A log that can be read page by page, or followed. `page` throws where there is none. */
interface EventLog<E extends { seq: number }> {
	page(options: Parameters<Paddock["events"]>[1]): Promise<{ items: E[]; next: number; done: boolean }>;
	follow(options: { after: number; signal: AbortSignal }): AsyncIterable<E>;
}

/** As the caller wants them: live, or a page that may wait for its first event. */
export async function serveEvents<E extends { seq: number }>(
	door: HttpDoor,
	{ query, headers, signal, accepts }: EventCall,
	log: EventLog<E>,
): Promise<{ items: E[]; next: number; done: boolean } | Response> {
	const lastSeen = headers["last-event-id"];
	const after = lastSeen === undefined ? query.after : Number(lastSeen);
	const wantsStream = query.format ? query.format === "sse" : accepts(SSE);
	if (!wantsStream) {
		const stop = stopWith(door, signal);
		try {
			// A long poll ends early when the server closes: the caller asks again, elsewhere.
			return await log.page({ after, limit: query.limit, waitMs: query.wait_s * 1000, signal: stop.signal });
		} finally {
			stop.abort();
		}
	}
	// 204 is how a browser's EventSource learns not to come back.
	const rest = await log.page({ after, limit: 1 });
	if (rest.done && rest.items.length === 0) return new Response(null, { status: 204 });
	const stop = stopWith(door, signal);
	const events = log.follow({ after, signal: stop.signal });
	return sseResponse(numbered(events), { stop, log: door.log, keepAliveMs: door.keepAliveMs });
}

async function* numbered<E extends { seq: number }>(
	events: AsyncIterable<E>,
): AsyncGenerator<{ id: number; data: E }> {
	for await (const event of events) yield { id: event.seq, data: event };
}
