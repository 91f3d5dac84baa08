import { UsageError } from "../errors.ts";

/** What admission asks of store and queue. */
interface Waiting {
	/** How many rollouts wait for a worker. */
	depth(): Promise<number>;
	isSubmitted(idempotencyKey: string): Promise<boolean>;
}

/** Lets new rollouts in while the queue has room, one look at a time, so that a burst cannot slip past the limit. */
export class Admission {
	readonly #waiting: Waiting;
	readonly #limit: number;
	/** Let in, but not yet stored for certain. */
	#entering = 0;
	#lastLook: Promise<unknown> = Promise.resolve();
	readonly #underWay = new Map<string, Promise<void>>();

	constructor(waiting: Waiting, limit: number) {
		this.#waiting = waiting;
		this.#limit = limit;
	}

	/** What was acknowledged under this key is told again however full the queue is: a repeat adds nothing to it. */
	async admit<T>(count: number, idempotencyKey: string | undefined, store: () => Promise<T>): Promise<T> {
		if (idempotencyKey === undefined) return await this.#admitNew(count, store);
		return await this.#inTurn(idempotencyKey, async () =>
			(await this.#waiting.isSubmitted(idempotencyKey)) ? await store() : this.#admitNew(count, store),
		);
	}

	/** Those with one key go one after the other: only then is it certain whether the later ones are repeats. */
	async #inTurn<T>(key: string, act: () => Promise<T>): Promise<T> {
		while (this.#underWay.has(key)) await this.#underWay.get(key);
		const done = Promise.withResolvers<void>();
		this.#underWay.set(key, done.promise);
		try {
			return await act();
		} finally {
			this.#underWay.delete(key);
			done.resolve();
		}
	}

	async #admitNew<T>(count: number, store: () => Promise<T>): Promise<T> {
		if (count > this.#limit) throw neverFits(count, this.#limit);
		const look = this.#lastLook.then(() => this.#enter(count));
		this.#lastLook = look.catch(() => {});
		await look;
		try {
			return await store();
		} finally {
			this.#entering -= count;
		}
	}

	async #enter(count: number): Promise<void> {
		// Taken before the look: whoever gets stored meanwhile is rather counted twice than not at all.
		const entering = this.#entering;
		const waiting = (await this.#waiting.depth()) + entering;
		if (waiting + count > this.#limit) throw queueFull(waiting, count, this.#limit);
		this.#entering += count;
	}
}

/** Coming back later would not help, so it is not said. */
function neverFits(count: number, limit: number): UsageError {
	return new UsageError(
		`this asks for ${count} rollouts at once, and no more than ${limit} may wait here: send fewer at once, or raise PADDOCK_QUEUE_LIMIT`,
		"above_queue_limit",
	);
}

function queueFull(waiting: number, count: number, limit: number): UsageError {
	return new UsageError(
		`${waiting} rollouts wait and ${count} more would pass the limit of ${limit}; try again later or raise PADDOCK_QUEUE_LIMIT`,
		"queue_full",
	);
}
