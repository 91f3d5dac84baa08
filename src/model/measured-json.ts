import { setImmediate as nextTurn } from "node:timers/promises";

export interface JsonLimits {
	/** Lists and objects inside each other. */
	maxDepth: number;
	/** Values, however small: each takes far more memory than the two bytes it costs to send. */
	maxValues: number;
}

export type Measured =
	| { type: "parsed"; value: unknown }
	| { type: "too-much"; of: string }
	| { type: "no-json"; why: string };

/** What any door of the server takes in one message: a task of 50,000 files has room in it. */
export const MESSAGE_LIMITS: JsonLimits = { maxDepth: 100, maxValues: 400_000 };

/** Parses what is not too much. */
export function parseMeasured(bytes: Uint8Array, limits: JsonLimits): Measured {
	const of = excessOf(bytes, limits);
	if (of !== null) return { type: "too-much", of };
	try {
		const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
		return { type: "parsed", value: JSON.parse(text) };
	} catch (error) {
		return { type: "no-json", why: error instanceof Error ? error.message : String(error) };
	}
}

/** From this size on each step of the work on a message is felt by everybody else in the process. */
const LARGE_BYTES = 256 * 1024;

/** Between two steps of the work on so many bytes others have their turn. */
export async function pauseFor(bytes: number): Promise<void> {
	if (bytes >= LARGE_BYTES) await nextTurn();
}

/** Parses bytes that were measured, step by step; rejects when they are no JSON. */
export async function parseInSteps(bytes: Uint8Array, { fatal }: { fatal: boolean }): Promise<unknown> {
	await pauseFor(bytes.length);
	const text = new TextDecoder("utf-8", { fatal }).decode(bytes);
	await pauseFor(bytes.length);
	const value: unknown = JSON.parse(text);
	await pauseFor(bytes.length);
	return value;
}

/**
 * Why these bytes are more than may be parsed; null when they are not. They are counted one by one and not understood: a
 * few megabytes of brackets and commas cost as many milliseconds here, and gigabytes once they are values.
 */
export function excessOf(bytes: Uint8Array, { maxDepth, maxValues }: JsonLimits): string | null {
	let depth = 0;
	let values = 1;
	for (let at = 0; at < bytes.length; at += 1) {
		const byte = bytes[at]!;
		if (byte === QUOTE) at = endOfString(bytes, at);
		else if (byte === COMMA) values += 1;
		else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
			depth += 1;
			values += 1;
			if (depth > maxDepth) return `deeper than ${maxDepth} levels`;
		} else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
		if (values > maxValues) return `of more than ${maxValues} values`;
	}
	return null;
}

/** Where the closing quote is, or the end. */
function endOfString(bytes: Uint8Array, start: number): number {
	let at = start + 1;
	while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
	return at;
}

const QUOTE = 34;
const COMMA = 44;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;
