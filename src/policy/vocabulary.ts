import { MARKS, WORDS } from "./words.ts";

/** The tokens of the scripted models: control tokens, all bytes, pairs of letters, and words that code and prose often use. */

const CONTROL = [
	"system",
	"tools",
	"user",
	"assistant",
	"tool",
	"think",
	"answer",
	"call",
	"arguments",
	"end",
] as const;
type ControlName = (typeof CONTROL)[number];

const RESERVED = 16;
const FIRST_PIECE = RESERVED + 256;

/** Ids of the control tokens. No text, however hostile, is ever encoded to one of these. */
export const CONTROL_ID = Object.fromEntries(CONTROL.map((name, id) => [name, id])) as Record<
	ControlName,
	number
>;

export const byteId = (byte: number): number => RESERVED + byte;

const PIECES = listPieces();
const ID_OF_PIECE = new Map(PIECES.map((piece, index) => [piece, FIRST_PIECE + index]));

export const VOCABULARY_SIZE = FIRST_PIECE + PIECES.length;
export const LONGEST_PIECE = Math.max(...PIECES.map((piece) => piece.length));

export function idOfPiece(piece: string): number | undefined {
	return ID_OF_PIECE.get(piece);
}

/** The bytes a token stands for; a control token reads as its name in angle brackets. */
export function bytesOf(id: number): Buffer {
	if (id < RESERVED) return Buffer.from(`<|${CONTROL[id] ?? "reserved"}|>`);
	if (id < FIRST_PIECE) return Buffer.from([id - RESERVED]);
	const piece = PIECES[id - FIRST_PIECE];
	if (piece === undefined) throw new RangeError(`no token has the id ${id}`);
	return Buffer.from(piece);
}

function listPieces(): string[] {
	const letters = "abcdefghijklmnopqrstuvwxyz";
	const pieces = new Set<string>();
	for (const first of letters) {
		pieces.add(` ${first}`);
		for (const second of letters) pieces.add(first + second).add(first.toUpperCase() + second);
	}
	for (let width = 2; width <= 16; width++) pieces.add(" ".repeat(width));
	for (let tabs = 1; tabs <= 4; tabs++) pieces.add("\t".repeat(tabs)).add(`\n${"\t".repeat(tabs)}`);
	for (const mark of MARKS) pieces.add(mark);
	for (const word of WORDS) {
		const capital = word[0]!.toUpperCase() + word.slice(1);
		pieces.add(word).add(` ${word}`).add(capital).add(` ${capital}`);
	}
	return [...pieces];
}
