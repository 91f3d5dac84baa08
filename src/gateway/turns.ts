import { setTimeout as delay, setImmediate as nextLoop } from "node:timers/promises";

/** From this size on, writing a request anew or recording it is felt by everybody else in the process. */
const LARGE_BYTES = 512 * 1024;
const MAX_REST_MS = 100;

/**
 * Work on large requests, one piece at a time: each needs several times its size while it lasts. After each piece
 * everybody else has their turn for as long as it took, so that the process answers quickly however many there are.
 */
export class Turns {
	#last: Promise<void> = Promise.resolve();

	/** Resolves when a piece of work on so many bytes may begin; dispose when it is done. */
	async take(bytes: number): Promise<Disposable> {
		if (bytes < LARGE_BYTES) return { [Symbol.dispose]() {} };
		const before = this.#last;
		const done = Promise.withResolvers<void>();
		this.#last = done.promise;
		await before;
		const begunAt = performance.now();
		return { [Symbol.dispose]: () => void rest(begunAt).then(done.resolve) };
	}
}

async function rest(begunAt: number): Promise<void> {
	await nextLoop();
	await delay(Math.min(performance.now() - begunAt, MAX_REST_MS));
}
