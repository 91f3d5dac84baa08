import { messageOf, RolloutError } from "../errors.ts";
import { toTimerMs } from "../model/duration.ts";

/** How long work that was told to stop may take to obey before it is left to itself. */
const STOP_GRACE_MS = 10_000;

export interface Limit {
	ms: number;
	/** What it means that the time is up. */
	late: () => RolloutError;
	/** Fires when the result is no longer wanted. */
	signal?: AbortSignal;
}

/**
 * The result of `work`, or an error once its time is up. Nearly all work ends by itself when its signal fires or its box goes;
 * this is for a box that no longer answers. A result that comes too late goes to `tooLate`, so that nothing stays open.
 */
export async function inTime<T>(
	work: Promise<T>,
	{ ms, late, signal }: Limit,
	tooLate: (result: T) => unknown = () => {},
): Promise<T> {
	const over = Promise.withResolvers<never>();
	const timers = [setTimeout(() => over.reject(late()), toTimerMs(ms))];
	const onAbort = () => timers.push(setTimeout(() => over.reject(signal?.reason), STOP_GRACE_MS));
	if (signal?.aborted) onAbort();
	signal?.addEventListener("abort", onAbort);
	try {
		return await Promise.race([work, over.promise]);
	} catch (error) {
		// Whoever waited has its error already; how the abandoned work ends is nobody's concern any more.
		work.then(tooLate).catch(() => {});
		throw error;
	} finally {
		for (const timer of timers) clearTimeout(timer);
		signal?.removeEventListener("abort", onAbort);
	}
}

export function unresponsiveBox(what: string, seconds: number): RolloutError {
	const message = `${what} did not end within ${seconds} s: the box no longer answers`;
	return new RolloutError("sandbox", "box_unresponsive", message, { retryable: true });
}

/** Closes `thing` within `seconds`. That it could not be closed is said, and changes nothing of how the rollout ended. */
export function closing(
	thing: AsyncDisposable,
	what: string,
	seconds: number,
	say: (text: string) => void,
): AsyncDisposable {
	const late = () => unresponsiveBox(`closing ${what}`, seconds);
	return {
		async [Symbol.asyncDispose]() {
			try {
				await inTime(Promise.resolve(thing[Symbol.asyncDispose]()), { ms: seconds * 1000, late });
			} catch (error) {
				say(`${what} could not be closed: ${messageOf(error)}`);
			}
		},
	};
}
