import type { TextPiece } from "../agent.ts";

interface Part {
	/** What whoever listens has by now; let go of when the part is finished. */
	sent: string;
	finished: boolean;
	/** Whether every character so far was heard on this connection: only then may a delta be appended. */
	synced: boolean;
}

const MAX_PARTS = 5_000;
const MAX_TEXT_CHARACTERS = 8 * 1024 * 1024;

export type PartPlace = Omit<TextPiece, "offset" | "text">;

/**
 * Text as it is written. Deltas append; a full text sends what is missing, or replaces. After a gap nothing of a part is sent until
 * its full text arrives, since nobody knows which deltas were missed.
 */
export class TextStream {
	readonly #emit: (piece: TextPiece) => void;
	readonly #parts = new Map<string, Part>();
	/** OpenCode names a delta's part, not its kind: reasoning streams too. */
	readonly #places = new Map<string, PartPlace>();

	constructor(emit: (piece: TextPiece) => void) {
		this.#emit = emit;
	}

	/** A new connection: what was being written may have gone on without us. */
	gap(): void {
		for (const part of this.#parts.values()) part.synced = false;
	}

	delta(partId: string, delta: string): void {
		const part = this.#parts.get(partId);
		const place = this.#places.get(partId);
		if (part === undefined || place === undefined || !part.synced || part.finished) return;
		if (part.sent.length + delta.length > MAX_TEXT_CHARACTERS) {
			part.synced = false;
			return;
		}
		this.#emit({ ...place, offset: part.sent.length, text: delta });
		part.sent += delta;
	}

	/** The part as the server knows it; only a finished one has its whole text. */
	part(place: PartPlace, text: string, finished: boolean): void {
		const part = this.#parts.get(place.partId) ?? this.#remember(place);
		if (part.finished) return;
		if (!finished) {
			part.synced = text === part.sent;
			return;
		}
		const common = commonLength(part.sent, text);
		if (common < part.sent.length || common < text.length)
			this.#emit({ ...place, offset: common, text: text.slice(common) });
		part.sent = "";
		part.finished = true;
	}

	#remember(place: PartPlace): Part {
		const part = { sent: "", finished: false, synced: true };
		this.#parts.set(place.partId, part);
		this.#places.set(place.partId, place);
		if (this.#parts.size > MAX_PARTS) {
			const oldest = this.#parts.keys().next().value!;
			this.#parts.delete(oldest);
			this.#places.delete(oldest);
		}
		return part;
	}
}

function commonLength(a: string, b: string): number {
	if (b.startsWith(a)) return a.length;
	const end = Math.min(a.length, b.length);
	let at = 0;
	while (at < end && a[at] === b[at]) at += 1;
	return at;
}
