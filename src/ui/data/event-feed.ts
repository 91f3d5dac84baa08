import type { FollowOptions } from "../../client/events.ts";
import type { LiveText } from "../../model/live-text.ts";
import type { LogEvent, Written } from "./log-event.ts";

export interface Feed {
	/** In order, gapless; a new array whenever something came. */
	events: readonly LogEvent[];
	/** Text that is being written, by part; the events have what is finished. */
	texts: ReadonlyMap<string, Written>;
	state: "reading" | "ended" | "broken";
	error: unknown;
}

export const NOTHING: Feed = { events: [], texts: new Map(), state: "reading", error: null };

/** Events arrive in bursts; the page is drawn once for each of these. */
const DRAW_EVERY_MS = 60;

export type Open = (
	follow: {
		[Name in "signal" | "giveUpAfterMs" | "onText"]: NonNullable<FollowOptions[Name]>;
	},
) => AsyncIterable<LogEvent>;

/** Everything a page shows comes from events: history first, then live, over any number of connections. */
export class EventFeed {
	#feed: Feed = NOTHING;
	#arrived: LogEvent[] = [];
	#texts = new Map<string, Written>();
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
			const follow = {
				signal: this.#end.signal,
				giveUpAfterMs: Number.POSITIVE_INFINITY,
				onText: (text: LiveText) => this.#hear(text),
			};
			for await (const event of open(follow)) {
				this.#arrived.push(event);
				// Once it is stored, it is no longer being written.
				if (event.type === "agent-event") this.#texts.delete(finishedPart(event.properties.part));
				this.#timer ??= setTimeout(() => this.#draw("reading"), DRAW_EVERY_MS);
			}
			this.#draw("ended");
		} catch (error) {
			this.#draw("broken", error);
		}
	}

	#hear({ partId, messageId, kind, isChild, offset, text }: LiveText): void {
		const before = this.#texts.get(partId)?.text ?? "";
		this.#texts.set(partId, { kind, isChild, messageId, text: before.slice(0, offset) + text });
		this.#timer ??= setTimeout(() => this.#draw("reading"), DRAW_EVERY_MS);
	}

	#draw(state: Feed["state"], error: unknown = null): void {
		clearTimeout(this.#timer);
		this.#timer = undefined;
		const events = this.#arrived.length === 0 ? this.#feed.events : [...this.#feed.events, ...this.#arrived];
		this.#feed = { events, texts: new Map(this.#texts), state, error };
		this.#arrived = [];
		for (const listener of this.#listeners) listener();
	}
}

/** The id of a part that is whole; of one that goes on, nothing. */
function finishedPart(value: unknown): string {
	const part = (value ?? {}) as { id?: unknown; time?: { end?: unknown } };
	return typeof part.id === "string" && part.time?.end !== undefined ? part.id : "";
}
