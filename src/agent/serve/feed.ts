import type { IncomingMessage } from "node:http";
import { messageOf, RolloutError } from "../../errors.ts";
import { isRecord } from "./client.ts";
import { FrameReader } from "./frames.ts";

/** One event of the agent's server, and of which directory. */
export interface ServeEvent {
	directory: string | null;
	type: string;
	properties: Record<string, unknown>;
	/** What it weighs in memory, about. */
	sizeBytes: number;
}

export interface FeedTimes {
	connectMs: number;
	/** Heartbeats come every 10 s: a stream that is silent for longer than this is dead. */
	idleMs: number;
	/** Pauses before each new connection; the last one repeats. */
	reconnectMs: readonly number[];
	sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export interface FeedListener {
	/** The server said hello: from here on nothing is missed, what was before is. */
	onConnected(): void;
	onEvent(event: ServeEvent): void;
	onNoise(what: "unparseable" | "oversize", head: string): void;
	onLost(why: string): void;
}

/**
 * Listens for as long as `signal` lets it, over any number of connections. Resolves when told to stop; rejects only when the server
 * refuses us, since asking again would change nothing.
 */
export async function keepListening(
	open: (signal: AbortSignal) => Promise<IncomingMessage>,
	listener: FeedListener,
	times: FeedTimes,
	maxFrameBytes: number,
	signal: AbortSignal,
): Promise<void> {
	let failures = 0;
	while (!signal.aborted) {
		const connection = new Connection(listener, times, maxFrameBytes, signal);
		try {
			await connection.read(open);
			listener.onLost("the server closed it");
		} catch (error) {
			if (error instanceof RolloutError && error.code === "agent_auth_failed") throw error;
			if (!signal.aborted) listener.onLost(connection.diedOf ?? messageOf(error));
		}
		if (connection.heard) failures = 0;
		const pause = times.reconnectMs[Math.min(failures, times.reconnectMs.length - 1)] ?? 0;
		failures += 1;
		await times.sleep(pause, signal);
	}
}

class Connection {
	readonly #listener: FeedListener;
	readonly #times: FeedTimes;
	readonly #frames: FrameReader;
	readonly #stop = new AbortController();
	readonly #signal: AbortSignal;
	/** A connection that delivered something was a good one. */
	heard = false;
	diedOf: string | null = null;

	constructor(listener: FeedListener, times: FeedTimes, maxFrameBytes: number, signal: AbortSignal) {
		this.#listener = listener;
		this.#times = times;
		this.#frames = new FrameReader(maxFrameBytes);
		this.#signal = AbortSignal.any([signal, this.#stop.signal]);
	}

	async read(open: (signal: AbortSignal) => Promise<IncomingMessage>): Promise<void> {
		let limit = this.#limit(this.#times.connectMs, "it did not connect in time");
		try {
			const response = await open(this.#signal);
			const { statusCode = 0 } = response;
			if (statusCode === 401 || statusCode === 403)
				throw new RolloutError("agent", "agent_auth_failed", "opencode serve refused our password");
			if (statusCode !== 200) throw new Error(`the event stream answered ${statusCode}`);
			clearTimeout(limit);
			limit = this.#limit(this.#times.idleMs, "it fell silent");
			for await (const chunk of response) {
				limit.refresh();
				for (const frame of this.#frames.read(chunk as Buffer)) {
					this.heard = true;
					if (frame.type === "oversize") this.#listener.onNoise("oversize", frame.head);
					else this.#hear(frame.text);
				}
			}
		} finally {
			clearTimeout(limit);
			this.#stop.abort();
		}
	}

	#limit(ms: number, why: string): NodeJS.Timeout {
		return setTimeout(() => {
			this.diedOf = why;
			this.#stop.abort();
		}, ms);
	}

	#hear(text: string): void {
		const event = parseEvent(text);
		if (event === "unparseable") this.#listener.onNoise("unparseable", text);
		else if (event === null) return;
		else if (event.type === "server.connected") this.#listener.onConnected();
		else this.#listener.onEvent(event);
	}
}

/** Null for what is no event of anybody's: heartbeats, the duplicates that a synchronising server sends, other JSON. */
function parseEvent(text: string): ServeEvent | null | "unparseable" {
	let frame: unknown;
	try {
		frame = JSON.parse(text);
	} catch {
		return "unparseable";
	}
	if (!isRecord(frame)) return null;
	const payload = isRecord(frame.payload) ? frame.payload : frame;
	const { type, properties } = payload;
	if (typeof type !== "string" || type === "sync" || type === "server.heartbeat") return null;
	return {
		directory: typeof frame.directory === "string" ? frame.directory : null,
		type,
		properties: isRecord(properties) ? properties : {},
		sizeBytes: text.length,
	};
}
