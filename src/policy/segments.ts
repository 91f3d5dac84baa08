import { encode } from "./tokenizer.ts";

const MAX_CHARACTERS = 4_000_000;
const WORTH_KEEPING = 64;

const kept = new Map<string, number[]>();
let characters = 0;

/**
 * Encodes one segment of a conversation. Every turn repeats all segments before it, so the ids of long ones are kept,
 * the least recently used going first. The result is shared: do not change it.
 */
export function encodeSegment(text: string): readonly number[] {
	if (text.length < WORTH_KEEPING) return encode(text);
	const known = kept.get(text);
	if (known) {
		kept.delete(text);
		kept.set(text, known);
		return known;
	}
	const ids = encode(text);
	kept.set(text, ids);
	characters += text.length;
	for (const oldest of kept.keys()) {
		if (characters <= MAX_CHARACTERS) break;
		kept.delete(oldest);
		characters -= oldest.length;
	}
	return ids;
}
