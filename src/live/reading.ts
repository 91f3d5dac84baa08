import type { Have, LiveText } from "../model/live-text.ts";
import { isShortened } from "../model/shorten.ts";
import type { Live } from "./live.ts";

/** `have`: how much of each text the reader has with it. */
export type Read<E> = { event: E; have: Have } | { text: LiveText; have: Have };
type ReadText = { text: LiveText; have: Have };

interface LoggedEvent {
	type: string;
	name?: string;
	properties?: Record<string, unknown>;
}

/**
 * A log and, between its events, the texts as they are being written. A reader who comes back with what it has gets only what is
 * missing; once the log has a text, nothing of it is told any more. A slow reader gets larger pieces, not more of them.
 */
export async function* readLive<E extends LoggedEvent>(
	events: AsyncIterable<E>,
	live: Live,
	id: string,
	options: { have?: Have | undefined } = {},
): AsyncGenerator<Read<E>> {
	const reader = new Reader(options.have ?? new Map());
	const log = events[Symbol.asyncIterator]();
	let next: Promise<IteratorResult<E>> | null = null;
	try {
		using _hearing = live.hear(id, (text) => reader.add(text));
		for (;;) {
			next ??= log.next();
			const text = reader.shift();
			if (text !== null) {
				yield text;
				continue;
			}
			const first = await Promise.race([next, reader.bell()]);
			if (first === "rung") continue;
			next = null;
			if (first.done) return;
			const rest = reader.finish(first.value);
			if (rest !== null) yield rest;
			yield { event: first.value, have: reader.have };
		}
	} finally {
		// It may be waiting for the next event; whoever gave the iterable ends it by its own signal.
		void log.return?.(undefined);
	}
}

/** Remembered of texts that are complete, so that a late piece is known for what it is. */
const MAX_FINISHED = 500;

class Reader {
	readonly #have: Map<string, number>;
	readonly #waiting = new Map<string, LiveText>();
	/** The last that was told of each text that is being written. */
	readonly #told = new Map<string, LiveText>();
	readonly #finished = new Set<string>();
	#ring: (() => void) | null = null;

	constructor(have: Have) {
		this.#have = new Map(have);
	}

	get have(): Have {
		return new Map(this.#have);
	}

	add(text: LiveText): void {
		if (this.#finished.has(text.partId)) return;
		const waiting = this.#waiting.get(text.partId);
		this.#waiting.set(text.partId, waiting === undefined ? text : joined(waiting, text));
		this.#ring?.();
	}

	/** Resolves at once when something waits. */
	bell(): Promise<"rung"> {
		return new Promise((resolve) => {
			this.#ring = () => resolve("rung");
			if (this.#waiting.size > 0) resolve("rung");
		});
	}

	shift(): ReadText | null {
		for (const [partId, text] of this.#waiting) {
			this.#waiting.delete(partId);
			const told = this.#tell(text);
			if (told !== null) return told;
		}
		return null;
	}

	/** What the log tells of a text is the truth; whatever of it was not told yet comes before. */
	finish(event: LoggedEvent): ReadText | null {
		const part = finishedPart(event);
		if (part === null) return null;
		this.#finished.add(part.id);
		if (this.#finished.size > MAX_FINISHED) this.#finished.delete(this.#finished.values().next().value!);
		const rest = this.#restOf(part);
		this.#waiting.delete(part.id);
		this.#told.delete(part.id);
		this.#have.delete(part.id);
		return rest;
	}

	/** The log may be quicker than the last pieces: whoever saw the beginning sees the end, then the event. */
	#restOf({ id, text }: FinishedPart): ReadText | null {
		const waiting = this.#waiting.get(id);
		const known = waiting ?? this.#told.get(id);
		if (known === undefined) return null;
		if (text === null) return waiting === undefined ? null : this.#tell(waiting);
		const has = this.#have.get(id) ?? 0;
		// What waits may change what was told; unless it is all of it, once more.
		const from = waiting === undefined || waiting.offset === 0 ? has : Math.min(has, waiting.offset);
		return from >= text.length ? null : this.#tell({ ...known, offset: from, text: text.slice(from) });
	}

	/** Pieces that stand in what the reader has by now begin where that ends. */
	#tell(text: LiveText): ReadText | null {
		const has = this.#have.get(text.partId) ?? 0;
		const end = text.offset + text.text.length;
		const isKnown = text.offset === 0 && has > 0;
		if (isKnown && end <= has) return null;
		const told = isKnown ? { ...text, offset: has, text: text.text.slice(has) } : text;
		this.#have.set(text.partId, end);
		this.#told.set(text.partId, told);
		return { text: told, have: this.have };
	}
}

function joined(first: LiveText, next: LiveText): LiveText {
	if (next.offset < first.offset) return next;
	return { ...first, text: first.text.slice(0, next.offset - first.offset) + next.text };
}

interface FinishedPart {
	id: string;
	/** Null where the log has not all of it. */
	text: string | null;
}

function finishedPart({ type, name, properties }: LoggedEvent): FinishedPart | null {
	if (type !== "agent-event" || name !== "message.part.updated") return null;
	const part = properties?.part as
		| { id?: unknown; type?: unknown; text?: unknown; time?: { end?: unknown } | undefined }
		| undefined;
	const isText = part?.type === "text" || part?.type === "reasoning";
	if (!isText || part.time?.end === undefined || typeof part.id !== "string") return null;
	const isWhole = typeof part.text === "string" && !isShortened(part.text);
	return { id: part.id, text: isWhole ? (part.text as string) : null };
}
