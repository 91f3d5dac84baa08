/** A place at a conversation's endpoint, held while the agent works and given up when it has nothing to do. */
export class TurnSlot implements Disposable {
	readonly #enter: () => Promise<Disposable>;
	#held: Disposable | null = null;
	#isSending = false;

	constructor(enter: () => Promise<Disposable>) {
		this.#enter = enter;
	}

	/** Waits for a place, unless it has one. Whoever sends does so one by one. */
	async during<T>(send: () => Promise<T>): Promise<T> {
		const hadOne = this.#held !== null;
		this.#isSending = true;
		try {
			this.#held ??= await this.#enter();
			return await send();
		} catch (error) {
			if (!hadOne) this.#leave();
			throw error;
		} finally {
			this.#isSending = false;
		}
	}

	/** The agent has nothing to do, unless somebody is about to tell it something. */
	settled(): void {
		if (!this.#isSending) this.#leave();
	}

	[Symbol.dispose](): void {
		this.#leave();
	}

	#leave(): void {
		this.#held?.[Symbol.dispose]();
		this.#held = null;
	}
}
