/**
 * Commits in batches: one is under way at a time, and whatever arrives meanwhile is the next one. Under load the cost
 * of a commit is shared; alone, nobody waits.
 */
export class GroupCommit<Item, Result> {
	readonly #commit: (items: Item[]) => Promise<Result[]>;
	#pending: Item[] = [];
	#next: Promise<Result[]> | null = null;
	#current: Promise<unknown> = Promise.resolve();

	/** `commit` answers one result per item, in order; when it throws, all of its batch fail with that. */
	constructor(commit: (items: Item[]) => Promise<Result[]>) {
		this.#commit = commit;
	}

	async add(item: Item): Promise<Result> {
		const index = this.#pending.push(item) - 1;
		this.#next ??= this.#schedule();
		const results = await this.#next;
		return results[index]!;
	}

	get idle(): boolean {
		return this.#next === null;
	}

	/** Resolves when all that was added so far has been committed or has failed. */
	async settled(): Promise<void> {
		await Promise.allSettled([this.#next ?? this.#current]);
	}

	#schedule(): Promise<Result[]> {
		const batch = Promise.allSettled([this.#current]).then(() => {
			const items = this.#pending;
			this.#pending = [];
			this.#next = null;
			return this.#commit(items);
		});
		this.#current = batch;
		return batch;
	}
}
