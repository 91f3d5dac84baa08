import type { LiveText } from "../model/live-text.ts";

/** One agent and its sub-agents write few texts at a time; a longer one is read in the log. */
const MAX_PARTS = 64;
const MAX_CHARACTERS = 512 * 1024;

interface Part {
	place: Omit<LiveText, "offset" | "text">;
	text: string;
}

/** What a piece says of what stands after it: nothing, since it was one of many; or that there is nothing. */
export interface Piece extends LiveText {
	cuts: boolean;
}

/** The texts that one agent is writing, each as far as it is known. */
export class Texts {
	readonly #parts = new Map<string, Part>();

	/**
	 * Takes a piece in and answers with what is new in it: a suffix, or, where it cuts off what stood there, all that changed. Null
	 * when nothing is new; "gap" when something before it is missing.
	 */
	take({ offset, text, cuts, ...place }: Piece): Piece | null | "gap" {
		const part = this.#parts.get(place.partId);
		const before = part?.text ?? "";
		if (offset > before.length) return "gap";
		if (!cuts && offset + text.length <= before.length) return null;
		const now = before.slice(0, offset) + text;
		if (now === before) return null;
		if (now.length > MAX_CHARACTERS) {
			this.#parts.delete(place.partId);
			return null;
		}
		this.#parts.set(place.partId, { place, text: now });
		if (part === undefined && this.#parts.size > MAX_PARTS) this.#parts.delete(firstOf(this.#parts));
		if (now.startsWith(before))
			return { ...place, offset: before.length, text: now.slice(before.length), cuts: false };
		return { ...place, offset, text, cuts: true };
	}

	forget(partId: string): void {
		this.#parts.delete(partId);
	}

	clear(): void {
		this.#parts.clear();
	}

	/** Each from its beginning. */
	all(): Piece[] {
		return [...this.#parts.values()].map(({ place, text }) => ({ ...place, offset: 0, text, cuts: false }));
	}
}

function firstOf<T>(map: Map<string, T>): string {
	return map.keys().next().value!;
}
