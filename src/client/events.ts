import { getConversationEvents } from "../api/conversations.ts";
import { getEvents, SSE } from "../api/trace.ts";
import type { ConversationEvent } from "../model/conversation.ts";
import type { RolloutEvent } from "../model/event.ts";
import type { LiveText } from "../model/live-text.ts";
import { readLines } from "./lines.ts";
import { Backoff, pause } from "./pause.ts";
import { ApiError, type ClientOptions, openRoute } from "./request.ts";

export interface FollowOptions {
	/** The last sequence number already seen. */
	after?: number;
	signal?: AbortSignal | undefined;
	/** Hears text while it is being written: what stands from `offset` on is now `text`. The events have what is finished. */
	onText?: ((text: LiveText) => void) | undefined;
	/** With no connection for this long, the last error is thrown. */
	giveUpAfterMs?: number;
}

/** The server speaks at least every 15 s; a line silent for longer is dead, whatever TCP thinks. */
const SILENCE_MS = 45_000;

export function followEvents(
	client: ClientOptions,
	id: string,
	options: FollowOptions = {},
): AsyncGenerator<RolloutEvent> {
	return followLog<RolloutEvent>(client, getEvents, id, options);
}

/** Until it is closed; one that is opened again is followed anew. */
export function followConversation(
	client: ClientOptions,
	id: string,
	options: FollowOptions = {},
): AsyncGenerator<ConversationEvent> {
	return followLog<ConversationEvent>(client, getConversationEvents, id, options);
}

type EventRoute = typeof getEvents | typeof getConversationEvents;
type Event = RolloutEvent | ConversationEvent;

/** Every event once and in order, until the end; lost connections are taken up where they broke. */
async function* followLog<E extends Event>(
	client: ClientOptions,
	route: EventRoute,
	id: string,
	options: FollowOptions,
): AsyncGenerator<E> {
	const { signal, giveUpAfterMs = 60_000 } = options;
	let last = options.after ?? 0;
	const place = { word: String(last) };
	let heardAt = Date.now();
	const backoff = new Backoff();
	while (!signal?.aborted) {
		try {
			for await (const event of openStream<E>(client, route, id, place, options)) {
				heardAt = Date.now();
				backoff.reset();
				if (event.type === "text") {
					options.onText?.(event);
					continue;
				}
				if (event.seq <= last) continue;
				last = event.seq;
				yield event;
				if (event.type === "rollout-end") return;
			}
			if (await hasEnded(client, route, id, last, signal)) return;
			heardAt = Date.now();
		} catch (error) {
			if (signal?.aborted) return;
			if (isFinal(error) || Date.now() - heardAt > giveUpAfterMs) throw error;
		}
		await pause(backoff.next(), signal);
	}
}

async function* openStream<E extends Event>(
	client: ClientOptions,
	route: EventRoute,
	id: string,
	place: { word: string },
	{ signal, onText }: FollowOptions,
): AsyncGenerator<E | LiveText> {
	const dead = new AbortController();
	const abort = () => dead.abort();
	signal?.addEventListener("abort", abort);
	let timer = setTimeout(abort, SILENCE_MS);
	let { word } = place;
	try {
		const response = await openRoute(client, route, {
			params: { id },
			query: { live: onText === undefined ? "false" : "true" },
			headers: { "last-event-id": place.word },
			accept: SSE,
			signal: dead.signal,
		});
		for await (const line of readLines(response.body)) {
			clearTimeout(timer);
			timer = setTimeout(abort, SILENCE_MS);
			// Says how much of each text we have: after a cut only the rest is sent. A cut may also fall between this line and what it names.
			if (line.startsWith("id:")) word = line.slice(3).trim();
			if (!line.startsWith("data:")) continue;
			const event = JSON.parse(line.slice(5)) as E | LiveText;
			place.word = word;
			yield event;
		}
	} finally {
		clearTimeout(timer);
		signal?.removeEventListener("abort", abort);
	}
}

/** The stream may also close because the server does; then there is more to come. */
async function hasEnded(
	client: ClientOptions,
	route: EventRoute,
	id: string,
	after: number,
	signal: AbortSignal | undefined,
): Promise<boolean> {
	const response = await openRoute(client, route, { params: { id }, query: { after, limit: 1 }, signal });
	const { items, done } = (await response.json()) as { items: unknown[]; done: boolean };
	return done && items.length === 0;
}

/** The server understood and refused; asking again changes nothing. */
function isFinal(error: unknown): boolean {
	return error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
}
