/** The last bytes of a stream; the rest is counted and dropped, so a flood costs no memory. */
export class Tail {
	droppedBytes = 0;
	readonly #limit: number;
	#chunks: Uint8Array[] = [];
	#size = 0;

	constructor(limitBytes: number) {
		this.#limit = limitBytes;
	}

	push(chunk: Uint8Array): void {
		this.#chunks.push(chunk);
		this.#size += chunk.length;
		// Trimming at twice the limit keeps the copying linear.
		if (this.#size > 2 * this.#limit) this.#trim();
	}

	text(): string {
		this.#trim();
		return Buffer.concat(this.#chunks).toString("utf8");
	}

	#trim(): void {
		const excess = this.#size - this.#limit;
		if (excess <= 0) return;
		const kept = Buffer.from(Buffer.concat(this.#chunks).subarray(excess));
		this.#chunks = [kept];
		this.#size = kept.length;
		this.droppedBytes += excess;
	}
}
