const MAX_CHARACTERS = 64 * 1024 * 1024;
/** What an event costs besides its content. */
const PER_EVENT = 200;

/** How much an agent may write into its rollout's event log: a hostile one could fill memory and disk with it. */
export class EventAllowance {
	#left: number;
	readonly #onUsedUp: () => void;

	/** `onUsedUp` is called once. */
	constructor(onUsedUp: () => void, characters = MAX_CHARACTERS) {
		this.#onUsedUp = onUsedUp;
		this.#left = characters;
	}

	/** False when this is no longer kept. */
	take(content: unknown): boolean {
		if (this.#left <= 0) return false;
		this.#left -= JSON.stringify(content).length + PER_EVENT;
		if (this.#left <= 0) this.#onUsedUp();
		return this.#left > 0;
	}
}
