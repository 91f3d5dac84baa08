import { byteId, bytesOf, idOfPiece, LONGEST_PIECE } from "./vocabulary.ts";

/**
 * A small reversible tokenizer: every text becomes ids and comes back byte for byte. It exists so that a rollout without
 * any real engine still has honest token ids; its vocabulary is far too small for anything else.
 */
export function encode(text: string): number[] {
	const ids: number[] = [];
	for (const [chunk] of text.matchAll(CHUNK)) {
		const whole = idOfPiece(chunk);
		if (whole === undefined) encodeChunk(chunk, ids);
		else ids.push(whole);
	}
	return ids;
}

export function decode(ids: readonly number[]): string {
	return Buffer.concat(ids.map(bytesOf)).toString("utf8");
}

/** A word with the space before it, a run of blanks, or a run of other characters. */
const CHUNK = / ?[A-Za-z]+|\s+(?= [A-Za-z])|\s+|[^A-Za-z\s]+/g;

/** The longest known piece at each position; what no piece begins with goes byte by byte. */
function encodeChunk(chunk: string, ids: number[]): void {
	let at = 0;
	while (at < chunk.length) {
		const width = widthOfPiece(chunk, at);
		if (width > 0) {
			ids.push(idOfPiece(chunk.slice(at, at + width))!);
			at += width;
			continue;
		}
		const character = String.fromCodePoint(chunk.codePointAt(at)!);
		for (const byte of Buffer.from(character)) ids.push(byteId(byte));
		at += character.length;
	}
}

function widthOfPiece(chunk: string, at: number): number {
	for (let width = Math.min(LONGEST_PIECE, chunk.length - at); width > 1; width--) {
		if (idOfPiece(chunk.slice(at, at + width)) !== undefined) return width;
	}
	return idOfPiece(chunk[at]!) === undefined ? 0 : 1;
}
