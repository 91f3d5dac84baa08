import type { Paddock } from "../paddock.ts";
import { ProblemError } from "./problem.ts";

const RETRY_AFTER_S = 10;

/** Lets new rollouts in while the queue has room; counts those being stored right now, so that a burst cannot slip by. */
export class Admission {
	readonly limit: number;
	readonly #paddock: Paddock;
	#entering = 0;

	constructor(paddock: Paddock, limit: number) {
		this.#paddock = paddock;
		this.limit = limit;
	}

	async admit<T>(count: number, store: () => Promise<T>): Promise<T> {
		this.#entering += count;
		try {
			const depth = await this.#paddock.queue.depth();
			if (depth + this.#entering > this.limit) throw queueFull(depth, count, this.limit);
			return await store();
		} finally {
			this.#entering -= count;
		}
	}
}

function queueFull(depth: number, count: number, limit: number): ProblemError {
	return new ProblemError(
		429,
		"queue_full",
		`${depth} rollouts wait and ${count} more would pass the limit of ${limit}; try again later or raise PADDOCK_QUEUE_LIMIT`,
		{ "retry-after": String(RETRY_AFTER_S) },
	);
}
