import { carefully } from "../log.ts";
import type { RolloutEvent } from "../model/event.ts";
import type { RolloutStatus } from "../model/rollout.ts";

/** A rollout after a committed change, with the events that the change wrote. */
export interface Changed {
	id: string;
	status: RolloutStatus;
	attempt: number;
	revision: number;
	events: RolloutEvent[];
}

/** Tells this process what was committed: listeners what it committed itself, watchers what anybody did to a rollout. */
export class Announcer {
	readonly #listeners = new Set<(event: RolloutEvent) => void>();
	readonly #watchers = new Map<string, Set<() => void>>();
	readonly #revisions = new Map<string, number>();

	listen(onEvent: (event: RolloutEvent) => void): Disposable {
		// Each is its own entry, even if two share one function; the same holds for watchers.
		const listener = (event: RolloutEvent) => onEvent(event);
		this.#listeners.add(listener);
		return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
	}

	watch(id: string, revision: number | null, onChange: () => void): Disposable {
		const watcher = () => onChange();
		const watchers = this.#watchers.get(id) ?? new Set();
		watchers.add(watcher);
		this.#watchers.set(id, watchers);
		if (watchers.size === 1 && revision !== null) this.#revisions.set(id, revision);
		return {
			[Symbol.dispose]: () => {
				watchers.delete(watcher);
				if (watchers.size > 0 || this.#watchers.get(id) !== watchers) return;
				this.#watchers.delete(id);
				this.#revisions.delete(id);
			},
		};
	}

	/** The rollouts that somebody watches. */
	watched(): string[] {
		return [...this.#watchers.keys()];
	}

	/** Announces a change that this process committed, and hands it on. */
	announce(changed: Changed[]): Changed[] {
		for (const { id, revision, events } of changed) {
			this.committed(events);
			this.changed(id, revision);
		}
		return changed;
	}

	committed(events: RolloutEvent[]): void {
		for (const event of events) for (const listener of [...this.#listeners]) carefully(() => listener(event));
	}

	/** Tells the rollout's watchers, unless they know this revision already. */
	changed(id: string, revision: number): void {
		const watchers = this.#watchers.get(id);
		if (!watchers || (this.#revisions.get(id) ?? -1) >= revision) return;
		this.#revisions.set(id, revision);
		for (const watcher of [...watchers]) carefully(watcher);
	}

	/** Something may have been missed: everybody who watches should look. */
	missed(): void {
		for (const watchers of [...this.#watchers.values()])
			for (const watcher of [...watchers]) carefully(watcher);
	}
}
