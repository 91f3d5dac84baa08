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

/** One turnstile for each name, for as long as somebody is inside or waiting. */
export class Turnstiles {
	readonly #width: number;
	readonly #byName = new Map<string, { turnstile: Turnstile; users: number }>();

	constructor(width: number) {
		this.#width = width;
	}

	async enter(name: string): Promise<Disposable> {
		const entry = this.#byName.get(name) ?? { turnstile: new Turnstile(this.#width), users: 0 };
		this.#byName.set(name, entry);
		entry.users++;
		const turn = await entry.turnstile.enter();
		return {
			[Symbol.dispose]: () => {
				turn[Symbol.dispose]();
				entry.users--;
				if (entry.users === 0) this.#byName.delete(name);
			},
		};
	}
}
