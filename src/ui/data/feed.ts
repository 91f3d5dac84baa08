import { useEffect, useState, useSyncExternalStore } from "react";
import type { EventBody } from "../../model/event.ts";
import { server } from "../server.ts";

/** An event of a rollout or of a conversation. */
export type LogEvent = { seq: number; at: number } & EventBody;

export interface Feed {
	/** In order, gapless; a new array whenever something came. */
	events: readonly LogEvent[];
	state: "reading" | "ended" | "broken";
	error: unknown;
}

/** Events arrive in bursts; the page is drawn once for each of these. */
const DRAW_EVERY_MS = 60;

type Open = (follow: { signal: AbortSignal; giveUpAfterMs: number }) => AsyncIterable<LogEvent>;

/** Everything a page shows comes from events: history first, then live, over any number of connections. */
class EventFeed {
	#feed: Feed = { events: [], state: "reading", error: null };
	#arrived: LogEvent[] = [];
	#timer: ReturnType<typeof setTimeout> | undefined;
	readonly #listeners = new Set<() => void>();
	readonly #end = new AbortController();

	constructor(open: Open) {
		void this.#read(open);
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

	async #read(open: Open): Promise<void> {
		try {
			const follow = { signal: this.#end.signal, giveUpAfterMs: Number.POSITIVE_INFINITY };
			for await (const event of open(follow)) {
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
	return useFeed(id, (follow) => server.events(id, follow));
}

/** `turn` rises when a closed one was opened again: its log goes on. */
export function useConversationFeed(id: string, turn: number): Feed {
	return useFeed(`${id} ${turn}`, (follow) => server.conversationEvents(id, follow));
}

function useFeed(key: string, open: Open): Feed {
	const [feed, setFeed] = useState<EventFeed | null>(null);
	// biome-ignore lint/correctness/useExhaustiveDependencies: the key says what is opened
	useEffect(() => {
		const opened = new EventFeed(open);
		setFeed(opened);
		return () => {
			opened.close();
			setFeed(null);
		};
	}, [key]);
	return useSyncExternalStore(feed?.subscribe ?? nobody, feed?.current ?? nothing);
}

const nobody = () => () => {};
const nothing = () => NOTHING;
