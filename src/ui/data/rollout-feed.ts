import { useEffect, useState, useSyncExternalStore } from "react";
import type { RolloutEvent } from "../../model/event.ts";
import { server } from "../server.ts";

export interface Feed {
	/** In order, gapless; a new array whenever something came. */
	events: readonly RolloutEvent[];
	state: "reading" | "ended" | "broken";
	error: unknown;
}

/** Events arrive in bursts; the page is drawn once for each of these. */
const DRAW_EVERY_MS = 60;

/** Everything a page shows of a rollout comes from its events: history first, then live, over any number of connections. */
class RolloutFeed {
	#feed: Feed = { events: [], state: "reading", error: null };
	#arrived: RolloutEvent[] = [];
	#timer: ReturnType<typeof setTimeout> | undefined;
	readonly #listeners = new Set<() => void>();
	readonly #end = new AbortController();

	constructor(id: string) {
		void this.#read(id);
	}

	readonly current = (): Feed => this.#feed;

	readonly subscribe = (listener: () => void): (() => void) => {
		this.#listeners.add(listener);
		return () => this.#listeners.delete(listener);
	};

	close(): void {
		this.#end.abort();
		clearTimeout(this.#timer);
	}

	async #read(id: string): Promise<void> {
		try {
			const follow = { signal: this.#end.signal, giveUpAfterMs: Number.POSITIVE_INFINITY };
			for await (const event of server.events(id, follow)) {
				this.#arrived.push(event);
				this.#timer ??= setTimeout(() => this.#draw("reading"), DRAW_EVERY_MS);
			}
			this.#draw("ended");
		} catch (error) {
			this.#draw("broken", error);
		}
	}

	#draw(state: Feed["state"], error: unknown = null): void {
		clearTimeout(this.#timer);
		this.#timer = undefined;
		this.#feed = { events: [...this.#feed.events, ...this.#arrived], state, error };
		this.#arrived = [];
		for (const listener of this.#listeners) listener();
	}
}

const NOTHING: Feed = { events: [], state: "reading", error: null };

export function useRolloutFeed(id: string): Feed {
	const [feed, setFeed] = useState<RolloutFeed | null>(null);
	useEffect(() => {
		const opened = new RolloutFeed(id);
		setFeed(opened);
		return () => {
			opened.close();
			setFeed(null);
		};
	}, [id]);
	return useSyncExternalStore(feed?.subscribe ?? nobody, feed?.current ?? nothing);
}

const nobody = () => () => {};
const nothing = () => NOTHING;
