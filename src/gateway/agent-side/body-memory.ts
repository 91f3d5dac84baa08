/** What one request holds of our memory, from its first byte to the end of its answer. */
export interface BodyShare extends Disposable {
	/** False: there is no room for that much more. */
	add(bytes: number): boolean;
}

/** The bodies of one box, all together: many connections must not hold what one may not. */
export class BodyMemory {
	readonly #maxBytes: number;
	#bytes = 0;

	constructor(maxBytes: number) {
		this.#maxBytes = maxBytes;
	}

	open(): BodyShare {
		let own = 0;
		return {
			add: (bytes) => {
				if (this.#bytes + bytes > this.#maxBytes) return false;
				this.#bytes += bytes;
				own += bytes;
				return true;
			},
			[Symbol.dispose]: () => {
				this.#bytes -= own;
				own = 0;
			},
		};
	}
}
