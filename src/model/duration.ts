/** A timer that is set to more than this rings at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Milliseconds as timers take them: whole, and within what they can count. For every duration that was not written as a number. */
export function toTimerMs(ms: number): number {
	return Math.min(Math.max(0, Math.ceil(ms)), LONGEST_TIMER_MS);
}

/** Fires when so much time has passed, or when `signal` does. */
export function untilTimeout(timeoutMs: number, signal?: AbortSignal): AbortSignal {
	const clock = AbortSignal.timeout(toTimerMs(timeoutMs));
	return signal === undefined ? clock : AbortSignal.any([signal, clock]);
}
