import { setTimeout as delay } from "node:timers/promises";
import { UsageError } from "../errors.ts";

/** Nobody tells when a hold ends: its holder may be on another machine, and dead. */
const LOOK_AGAIN_MS = 500;
/** A rollout that waits has a box already; for longer than this it is better tried again later. */
const PATIENCE_MS = 10 * 60_000;

export interface Waiting {
	/** Ends the wait, with its reason. */
	signal: AbortSignal;
	/** Called once, when it has to wait. */
	onWait: () => void;
}

/** Takes what others hold just now as soon as it is free. Without `waiting`, it must be free at once. */
export async function whenFree<T>(take: () => Promise<T>, waiting: Waiting | undefined): Promise<T> {
	const until = performance.now() + PATIENCE_MS;
	for (let tries = 1; ; tries += 1) {
		try {
			return await take();
		} catch (error) {
			const isHeld = error instanceof UsageError && error.code === "credential_held";
			if (!isHeld || waiting === undefined || performance.now() > until) throw error;
		}
		if (tries === 1) waiting.onWait();
		await delay(LOOK_AGAIN_MS, undefined, { signal: waiting.signal }).catch(() => {
			throw waiting.signal.reason;
		});
	}
}
