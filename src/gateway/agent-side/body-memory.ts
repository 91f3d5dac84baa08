export interface BodyMemoryLimits {
	/** What one box may hold at a time. */
	maxHeldBytes: number;
	/** The part of it that no other box can take away. */
	ownHeldBytes: number;
	/** What all boxes together may hold beyond their own parts. */
	maxHeldBytesInAll: number;
}

/** What one request holds of our memory, from its first byte to the end of its answer. */
export interface BodyShare extends Disposable {
	/** Gives back what was asked for and not needed. */
	keepOnly(bytes: number): void;
}

/**
 * The memory for requests that are being read or answered. Many connections of a box must not hold what one may not, and
 * many boxes not what the machine has not; a box that sends ordinary requests is not kept waiting by others that do not.
 */
export class BodyMemory {
	readonly #limits: BodyMemoryLimits;
	readonly #held = new WeakMap<object, number>();
	#shared = 0;
	/** In the order they came; each looks again when something was given back. */
	readonly #waiting = new Set<() => void>();

	constructor(limits: BodyMemoryLimits) {
		this.#limits = limits;
	}

	/** Waits for room; rejects with the signal's reason when there was none in time. */
	async reserve(box: object, bytes: number, signal: AbortSignal): Promise<BodyShare> {
		if (!this.#fits(box, bytes)) await this.#room(box, bytes, signal);
		else this.#add(box, bytes);
		let own = bytes;
		const keepOnly = (rest: number) => {
			if (rest >= own) return;
			this.#add(box, rest - own);
			own = rest;
			for (const look of this.#waiting) look();
		};
		return { keepOnly, [Symbol.dispose]: () => keepOnly(0) };
	}

	#room(box: object, bytes: number, signal: AbortSignal): Promise<void> {
		const { promise, resolve, reject } = Promise.withResolvers<void>();
		const look = () => {
			if (!this.#fits(box, bytes)) return;
			this.#add(box, bytes);
			resolve();
		};
		const onAbort = () => reject(signal.reason);
		if (signal.aborted) onAbort();
		signal.addEventListener("abort", onAbort);
		this.#waiting.add(look);
		const leave = () => {
			this.#waiting.delete(look);
			signal.removeEventListener("abort", onAbort);
		};
		promise.then(leave, leave);
		return promise;
	}

	#fits(box: object, bytes: number): boolean {
		const held = this.#held.get(box) ?? 0;
		if (held + bytes > this.#limits.maxHeldBytes) return false;
		return (
			this.#shared + this.#beyondOwn(held + bytes) - this.#beyondOwn(held) <= this.#limits.maxHeldBytesInAll
		);
	}

	#add(box: object, bytes: number): void {
		const held = this.#held.get(box) ?? 0;
		this.#shared += this.#beyondOwn(held + bytes) - this.#beyondOwn(held);
		this.#held.set(box, held + bytes);
	}

	#beyondOwn(held: number): number {
		return Math.max(0, held - this.#limits.ownHeldBytes);
	}
}
