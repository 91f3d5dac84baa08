/** Who wants to know about which rollout, in this process. */
export class Watchers {
	readonly #callbacks = new Map<string, Set<() => void>>();
	readonly #revisions = new Map<string, number>();

	get size(): number {
		return this.#callbacks.size;
	}

	ids(): string[] {
		return [...this.#callbacks.keys()];
	}

	add(id: string, revision: number | null, onChange: () => void): Disposable {
		// Each watcher is its own entry, even if two share one function.
		const callback = () => onChange();
		const callbacks = this.#callbacks.get(id) ?? new Set();
		callbacks.add(callback);
		this.#callbacks.set(id, callbacks);
		if (callbacks.size === 1 && revision !== null) this.#revisions.set(id, revision);
		return {
			[Symbol.dispose]: () => {
				callbacks.delete(callback);
				if (callbacks.size > 0 || this.#callbacks.get(id) !== callbacks) return;
				this.#callbacks.delete(id);
				this.#revisions.delete(id);
			},
		};
	}

	/** Tells the rollout's watchers, unless they know this revision already. */
	changed(id: string, revision: number): void {
		const callbacks = this.#callbacks.get(id);
		if (!callbacks || (this.#revisions.get(id) ?? -1) >= revision) return;
		this.#revisions.set(id, revision);
		for (const callback of [...callbacks]) callback();
	}

	/** Something may have been missed: everybody should look. */
	all(): void {
		for (const callbacks of [...this.#callbacks.values()]) for (const callback of [...callbacks]) callback();
	}
}
