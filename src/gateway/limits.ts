import { totalmem } from "node:os";

/** Every bound of the gateway, in one place. */
export interface GatewayLimits {
	/** Largest request body an agent may send, in bytes, in levels and in values. */
	maxBodyBytes: number;
	maxDepth: number;
	maxValues: number;
	/** Largest answer of an engine that comes in one piece. */
	maxAnswerBytes: number;
	/** What requests that are being read or answered may hold: one box, its own part of that, and all boxes beyond their own. */
	maxHeldBytes: number;
	ownHeldBytes: number;
	maxHeldBytesInAll: number;
	/** Longest streamed answer of an engine, as it comes over the wire. */
	maxStreamBytes: number;
	/** An agent must have sent its request's headers, and then its body, in this time. */
	clientHeadersMs: number;
	clientBodyMs: number;
	maxCallsInFlight: number;
	maxConnectionsPerBox: number;
	/** The engine must accept a connection, answer, and go on answering in these times. */
	connectMs: number;
	upstreamHeadersMs: number;
	upstreamChunkMs: number;
	/** The same for an answer that comes in one piece: nothing is heard until all of it is sampled. */
	upstreamWholeMs: number;
	/** Upstream requests that may fail in a row for one and the same request of the agent. */
	maxFailures: number;
	/** The same for an endpoint that accepts and then stays silent: each one costs a whole timeout. */
	maxHangs: number;
	/** Waits between tries inside the gateway double from here. */
	retryDelayMs: number;
	/** Longest single wait, whatever the endpoint asks for; and all waits of one call together. */
	rateLimitDelayMs: number;
	rateLimitTotalMs: number;
	/** Full deliveries of one identical request in a row before it counts as a loop. */
	maxRepeats: number;
	/** Comments that keep an agent's stream alive while the engine works unstreamed. */
	keepAliveMs: number;
}

export const DEFAULT_LIMITS: Readonly<GatewayLimits> = {
	// A context of a million tokens, or some pictures; a conversation of thousands of messages.
	maxBodyBytes: 8 * 1024 * 1024,
	maxDepth: 64,
	maxValues: 100_000,
	maxAnswerBytes: 64 * 1024 * 1024,
	maxHeldBytes: 16 * 1024 * 1024,
	ownHeldBytes: 1024 * 1024,
	// A request takes up to five times its size while it is answered.
	maxHeldBytesInAll: Math.max(16 * 1024 * 1024, totalmem() / 2048),
	maxStreamBytes: 256 * 1024 * 1024,
	clientHeadersMs: 20_000,
	clientBodyMs: 60_000,
	maxCallsInFlight: 32,
	maxConnectionsPerBox: 128,
	connectMs: 10_000,
	upstreamHeadersMs: 120_000,
	upstreamChunkMs: 120_000,
	upstreamWholeMs: 600_000,
	maxFailures: 4,
	maxHangs: 2,
	retryDelayMs: 1_000,
	rateLimitDelayMs: 20_000,
	rateLimitTotalMs: 60_000,
	maxRepeats: 8,
	keepAliveMs: 3_000,
};
