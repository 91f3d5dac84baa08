import { isAbsolute } from "node:path";
import type { Task } from "../model/task.ts";
import type { Paddock } from "../paddock.ts";
import { ProblemError } from "./problem.ts";

const RETRY_AFTER_S = 10;
/** A task is kept once, but each rollout keeps its own terms: a body full of labels could become gigabytes. */
const MAX_STORED_BYTES = 512 * 1024 * 1024;

/** Lets new rollouts in while the queue has room, one look at a time, so that a burst cannot slip past the limit. */
export class Admission {
	readonly limit: number;
	readonly #paddock: Paddock;
	/** Let in, but not yet stored for certain. */
	#entering = 0;
	#lastLook: Promise<unknown> = Promise.resolve();
	readonly #underWay = new Map<string, Promise<void>>();

	constructor(paddock: Paddock, limit: number) {
		this.#paddock = paddock;
		this.limit = limit;
	}

	/** What was acknowledged under this key is told again however full the queue is: a repeat adds nothing to it. */
	async admit<T>(count: number, idempotencyKey: string | undefined, store: () => Promise<T>): Promise<T> {
		if (idempotencyKey === undefined) return await this.#admitNew(count, store);
		return await this.#inTurn(idempotencyKey, async () =>
			(await this.#paddock.store.isSubmitted(idempotencyKey)) ? await store() : this.#admitNew(count, store),
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
		if (count > this.limit) throw neverFits(count, this.limit);
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
		const waiting = (await this.#paddock.queue.depth()) + entering;
		if (waiting + count > this.limit) throw queueFull(waiting, count, this.limit);
		this.#entering += count;
	}
}

/** Coming back later would not help, so it is not said. */
function neverFits(count: number, limit: number): ProblemError {
	return new ProblemError(
		422,
		"above_queue_limit",
		`this asks for ${count} rollouts at once, and no more than ${limit} may wait here: send fewer at once, or raise PADDOCK_QUEUE_LIMIT`,
	);
}

function queueFull(waiting: number, count: number, limit: number): ProblemError {
	return new ProblemError(
		429,
		"queue_full",
		`${waiting} rollouts wait and ${count} more would pass the limit of ${limit}; try again later or raise PADDOCK_QUEUE_LIMIT`,
		{ "retry-after": String(RETRY_AFTER_S) },
	);
}

/** Refuses terms that would be too much once every rollout has its copy. */
export function requireModest(terms: unknown, copies: number): void {
	if (copies === 1 || JSON.stringify(terms).length * copies <= MAX_STORED_BYTES) return;
	throw new ProblemError(
		413,
		"submission_too_large",
		`${copies} copies of the labels and other terms would take more than ${MAX_STORED_BYTES} bytes: send fewer at once, or shorter terms`,
	);
}

/** A folder of this machine becomes an image that the agent can read: callers with a token may be anywhere, and may not name one. */
export function requireImageNames(tasks: readonly Task[], token: string | null): void {
	if (token === null || !tasks.some((task) => isAbsolute(task.box.image ?? ""))) return;
	throw new ProblemError(
		422,
		"image_folder_refused",
		"box.image names a folder of this machine: build the image there and send its name",
	);
}
