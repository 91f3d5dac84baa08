import { type Have, type LiveText, toPosition } from "../model/live-text.ts";

type Read<E> = { event: E; have: Have } | { text: LiveText; have: Have };

/** Each with a word that says where its reader is then: whoever hands it back gets what is missing, and no more. */
export async function* positioned<E extends { seq: number }>(
	reading: AsyncIterable<Read<E>>,
	after: number,
): AsyncGenerator<{ id: string; data: E | LiveText }> {
	let seq = after;
	for await (const read of reading) {
		if ("event" in read) seq = read.event.seq;
		yield { id: toPosition(seq, read.have), data: "event" in read ? read.event : read.text };
	}
}
