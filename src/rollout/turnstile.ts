/** Lets at most `width` through at a time, in order of arrival. */
export class Turnstile {
	#free: number;
	readonly #waiting: (() => void)[] = [];

	constructor(width: number) {
		this.#free = width;
	}

	async enter(): Promise<Disposable> {
		if (this.#free > 0) this.#free--;
		else await new Promise<void>((resolve) => this.#waiting.push(resolve));
		let inside = true;
		return {
			[Symbol.dispose]: () => {
				if (inside) this.#leave();
				inside = false;
			},
		};
	}

	#leave(): void {
		const next = this.#waiting.shift();
		if (next) next();
		else this.#free++;
	}
}
