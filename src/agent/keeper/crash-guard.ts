import { RolloutError } from "../../errors.ts";

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 60_000;
const WINDOW_MS = 300_000;
const MAX_CRASHES = 5;

/** Makes a server that keeps dying wait longer each time, and after five deaths in five minutes leaves it dead. */
export class CrashGuard {
	readonly #now: () => number;
	#crashes: number[] = [];

	constructor(now: () => number) {
		this.#now = now;
	}

	crashed(): void {
		this.#crashes.push(this.#now());
	}

	/** Before a start; throws when there should be none. */
	async wait(sleep: (ms: number) => Promise<void>, deadline: number): Promise<void> {
		const now = this.#now();
		this.#crashes = this.#crashes.filter((at) => now - at < WINDOW_MS);
		const { length } = this.#crashes;
		if (length >= MAX_CRASHES)
			throw new RolloutError(
				"agent",
				"agent_crash_loop",
				`opencode serve ended ${length} times in five minutes`,
			);
		if (length === 0) return;
		const delayMs = Math.min(FIRST_DELAY_MS * 2 ** (length - 1), LONGEST_DELAY_MS);
		const leftMs = this.#crashes.at(-1)! + delayMs - now;
		if (leftMs <= 0) return;
		if (now + leftMs > deadline)
			throw new RolloutError(
				"agent",
				"agent_crash_loop",
				"opencode serve ended just now; it rests before it starts again",
				{
					retryable: true,
				},
			);
		await sleep(leftMs);
	}
}
