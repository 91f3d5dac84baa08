import { setTimeout as delay } from "node:timers/promises";
import type { FeedTimes } from "./feed.ts";
import type { GateTimes } from "./gate.ts";
import type { SendTimes } from "./send.ts";
import type { TurnTimes } from "./turns.ts";

/** Every wait of a conversation. */
export interface ServeTimes extends FeedTimes, GateTimes, SendTimes, TurnTimes {
	/** How long an interrupt waits for the agent to settle. */
	interruptMs: number;
	/** How long the end waits for listeners that take their time. */
	finishMs: number;
	/** How long a first connection may take. */
	startMs: number;
}

const RECONNECT_MS = [200, 500, 1_000, 2_000, 5_000];

export const SERVE_TIMES: ServeTimes = {
	connectMs: 10_000,
	idleMs: 35_000,
	reconnectMs: RECONNECT_MS,
	retryMs: RECONNECT_MS,
	decideMs: 300_000,
	postMs: 15_000,
	tries: 4,
	pauseMs: 150,
	lookAgainMs: 250,
	unansweredMs: 2_000,
	unheardMs: 60_000,
	interruptMs: 5_000,
	finishMs: 2_000,
	startMs: 30_000,
	sleep: async (ms, signal) => {
		// Woken early by its signal, it has slept enough.
		await delay(ms, null, { signal, ref: false }).catch(() => {});
	},
};
