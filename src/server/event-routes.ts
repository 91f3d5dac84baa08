import type { OpenAPIHono } from "@hono/zod-openapi";
import type { z } from "zod";
import { type EventHeaders, type EventQuery, getEvents, SSE } from "../api/trace.ts";
import { type Have, type LiveText, parsePosition } from "../model/live-text.ts";
import type { Paddock } from "../paddock.ts";
import { type HttpDoor, known, openStream, stopWith } from "./http-door.ts";
import { positioned } from "./live-stream.ts";
import { mount } from "./mount.ts";
import { sseResponse } from "./stream.ts";

export function mountEvents(app: OpenAPIHono, door: HttpDoor): void {
	const { paddock } = door;
	mount(app, getEvents, (call) => {
		const { id } = call.params;
		return serveEvents(door, call, {
			page: async (options) => known(await paddock.events(id, options), "rollout", id),
			follow: (options) => paddock.follow(id, options),
			live: (options) => paddock.followLive(id, options),
		});
	});
}

interface EventCall {
	query: z.output<typeof EventQuery> & { live: "true" | "false" };
	headers: z.output<typeof EventHeaders>;
	signal: AbortSignal;
	accepts(mediaType: string): boolean;
}

interface FollowOptions {
	after: number;
	signal: AbortSignal;
}

/** A log that can be read page by page, or followed. `page` throws where there is none. */
interface EventLog<E extends { seq: number }> {
	page(options: Parameters<Paddock["events"]>[1]): Promise<{ items: E[]; next: number; done: boolean }>;
	follow(options: FollowOptions): AsyncIterable<E>;
	/** With text as it is being written in between. */
	live(
		options: FollowOptions & { have: Have },
	): AsyncIterable<{ event: E; have: Have } | { text: LiveText; have: Have }>;
}

/** As the caller wants them: live, or a page that may wait for its first event. */
export async function serveEvents<E extends { seq: number }>(
	door: HttpDoor,
	{ query, headers, signal, accepts }: EventCall,
	log: EventLog<E>,
): Promise<{ items: E[]; next: number; done: boolean } | Response> {
	const lastSeen = headers["last-event-id"];
	const { after, have } = parsePosition(lastSeen ?? String(query.after));
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
	const stop = openStream(door, signal);
	const options = { after, have, signal: stop.signal };
	const events = query.live === "true" ? positioned(log.live(options), after) : numbered(log.follow(options));
	return sseResponse(events, { stop, log: door.log, keepAliveMs: door.keepAliveMs });
}

async function* numbered<E extends { seq: number }>(
	events: AsyncIterable<E>,
): AsyncGenerator<{ id: number; data: E }> {
	for await (const event of events) yield { id: event.seq, data: event };
}
