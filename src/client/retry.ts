import { Backoff, pause } from "./pause.ts";
import { ApiError } from "./request.ts";

/** How long and how loudly a request is repeated. */
export interface RetryOptions {
	/** Ends everything at once, a request under way too, whatever the server has made of it. */
	signal?: AbortSignal | undefined;
	/** Only ends the waiting: a request under way is answered first, so that nothing the server accepted gets lost. */
	noMoreTries?: AbortSignal | undefined;
	/** When the server was away for this long, the last error is thrown. */
	giveUpAfterMs?: number;
	/** How long a full queue is waited for. */
	queueForMs?: number;
	/** Told before each pause. */
	onWait?: (error: unknown, delayMs: number) => void;
}

/** A server that asks for more is asked again all the same: it may have room much earlier. */
const LONGEST_RETRY_AFTER_MS = 60_000;
/** What answers in place of a server that is just being started. */
const AWAY = [502, 503, 504];

/**
 * For what may safely be sent twice: reads, and what carries an idempotency key. A broken connection, a server that is
 * away and a full queue are waited out; any other refusal is thrown at once.
 */
export async function retried<T>(send: () => Promise<T>, options: RetryOptions = {}): Promise<T> {
	const { giveUpAfterMs = 60_000, queueForMs = 300_000 } = options;
	const stop = AbortSignal.any(
		[options.signal, options.noMoreTries].filter((signal) => signal !== undefined),
	);
	const backoff = new Backoff();
	const startedAt = Date.now();
	let heardAt = startedAt;
	for (;;) {
		try {
			return await send();
		} catch (error) {
			const isQueueFull = error instanceof ApiError && error.status === 429;
			if (!isQueueFull && !isAway(error)) throw error;
			if (isQueueFull) heardAt = Date.now();
			const delayMs = askedDelayMs(error) ?? backoff.next();
			const giveUpAt = isQueueFull ? startedAt + queueForMs : heardAt + giveUpAfterMs;
			if (stop.aborted || Date.now() + delayMs > giveUpAt) throw error;
			options.onWait?.(error, delayMs);
			await pause(delayMs, stop);
			stop.throwIfAborted();
		}
	}
}

/** fetch reports a broken connection as a TypeError; an answer, even a refusal, is an ApiError. */
function isAway(error: unknown): boolean {
	if (error instanceof ApiError) return AWAY.includes(error.status);
	if (!(error instanceof TypeError)) return false;
	return (error.cause as { code?: string } | undefined)?.code !== "ERR_INVALID_URL";
}

/** What Retry-After says, and a little more: everybody else was told the same. */
function askedDelayMs(error: unknown): number | null {
	if (!(error instanceof ApiError) || error.retryAfterS === null) return null;
	return Math.min(error.retryAfterS * 1000, LONGEST_RETRY_AFTER_MS) * (1 + Math.random() / 4);
}
