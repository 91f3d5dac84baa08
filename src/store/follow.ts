import type { RolloutEvent } from "../model/event.ts";
import type { Store } from "./store.ts";

/** Few, since whoever does not read on holds them: a thousand readers must not hold a thousand logs. */
const PAGE = 32;
/** A missed notification costs no more than this. */
const LOOK_AGAIN_MS = 5_000;

/** Every event after `after`, live, in order and without gaps, until the end event or the signal. */
export async function* follow(
	store: Store,
	id: string,
	options: { after?: number | undefined; signal?: AbortSignal | undefined } = {},
): AsyncGenerator<RolloutEvent> {
	let { after = 0 } = options;
	const bell = new Bell();
	using _watching = store.watch(id, () => bell.ring());
	// Asked before the events are read: whatever is done by now has all its events.
	let over = await isOver(store, id);
	while (!options.signal?.aborted) {
		const events = await store.events(id, { after, limit: PAGE });
		for (const event of events) {
			after = event.seq;
			yield event;
			// The end of a conversation may not be its last word: it can be opened again.
			if (event.type === "rollout-end" || options.signal?.aborted) return;
		}
		if (events.length === PAGE) continue;
		if (over) return;
		// As long as something happens it is not over: each event comes one question sooner.
		const goesOn = events.length > 0 && events.at(-1)?.type !== "conversation-end";
		if (!goesOn) over = await isOver(store, id);
		if (!over) await bell.rung(options.signal);
	}
}

/** Resolves when it has ended, or with the signal; reads none of its events. */
export async function untilOver(store: Store, id: string, signal: AbortSignal): Promise<void> {
	const bell = new Bell();
	using _watching = store.watch(id, () => bell.ring());
	while (!signal.aborted && !(await isOver(store, id))) await bell.rung(signal);
}

async function isOver(store: Store, id: string): Promise<boolean> {
	const rollout = await store.row(id);
	return rollout === null || rollout.status === "done";
}

/** Remembers a ring until somebody listens. */
class Bell {
	#rung = false;
	#wake: (() => void) | null = null;

	ring(): void {
		this.#rung = true;
		this.#wake?.();
	}

	async rung(signal?: AbortSignal): Promise<void> {
		if (!this.#rung && !signal?.aborted) {
			const woken = Promise.withResolvers<void>();
			this.#wake = woken.resolve;
			const timer = setTimeout(woken.resolve, LOOK_AGAIN_MS);
			const wake = () => woken.resolve();
			signal?.addEventListener("abort", wake);
			await woken.promise;
			signal?.removeEventListener("abort", wake);
			clearTimeout(timer);
		}
		this.#rung = false;
		this.#wake = null;
	}
}
