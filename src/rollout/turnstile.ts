/** Lets at most `width` through at a time, in order of arrival. */
export class Turnstile {
	#free: number;
	readonly #waiting: (() => void)[] = [];

	constructor(width: number) {
		this.#free = width;
	}

	async enter(signal?: AbortSignal): Promise<Disposable> {
		signal?.throwIfAborted();
		if (this.#free > 0) this.#free--;
		else await this.#turn(signal);
		let inside = true;
		return {
			[Symbol.dispose]: () => {
				if (inside) this.#leave();
				inside = false;
			},
		};
	}

	/** Whoever gives up leaves the line; its place goes to the next. */
	async #turn(signal: AbortSignal | undefined): Promise<void> {
		const turn = Promise.withResolvers<void>();
		const giveUp = () => {
			const at = this.#waiting.indexOf(turn.resolve);
			if (at >= 0) this.#waiting.splice(at, 1);
			turn.reject(signal?.reason);
		};
		this.#waiting.push(turn.resolve);
		signal?.addEventListener("abort", giveUp);
		try {
			await turn.promise;
		} finally {
			signal?.removeEventListener("abort", giveUp);
		}
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

	async enter(name: string, signal?: AbortSignal): Promise<Disposable> {
		const entry = this.#byName.get(name) ?? { turnstile: new Turnstile(this.#width), users: 0 };
		this.#byName.set(name, entry);
		entry.users++;
		using stack = new DisposableStack();
		stack.defer(() => {
			entry.users--;
			if (entry.users === 0) this.#byName.delete(name);
		});
		stack.use(await entry.turnstile.enter(signal));
		return stack.move();
	}
}
