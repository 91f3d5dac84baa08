import { toTimerMs } from "../model/duration.ts";

const FIRST_DELAY_MS = 100;
const LAST_DELAY_MS = 5_000;

/** Pauses between tries, longer each time. Never quite the same, so that many who wait do not come back as one burst. */
export class Backoff {
	#delayMs = FIRST_DELAY_MS;

	next(): number {
		const delayMs = this.#delayMs * (0.5 + Math.random() / 2);
		this.#delayMs = Math.min(this.#delayMs * 2, LAST_DELAY_MS);
		return delayMs;
	}

	reset(): void {
		this.#delayMs = FIRST_DELAY_MS;
	}
}

/** Returns when the time is over or the signal has fired, whichever is first. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
	if (signal?.aborted) return;
	const { promise, resolve } = Promise.withResolvers<void>();
	const onAbort = () => resolve();
	const timer = setTimeout(resolve, toTimerMs(ms));
	signal?.addEventListener("abort", onAbort, { once: true });
	await promise;
	clearTimeout(timer);
	signal?.removeEventListener("abort", onAbort);
}
