import { UpstreamFault } from "../upstream/fault.ts";

/** Far more than any engine repeats a field in one event. Each cut costs a copy, so their number must have an end. */
const MAX_CUTS = 64;

/**
 * Takes `"key":value` out of JSON text and leaves every other byte as it is: cheaper than writing the whole object
 * anew, and the agent gets the engine's own spelling of the rest. Every occurrence of the key goes, at any depth; inside
 * a JSON string it cannot occur, since quotes are escaped there.
 */
export function cutField(json: string, key: string): string {
	const needle = `"${key}"`;
	let text = json;
	let cuts = 0;
	for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at)) {
		const colon = skipSpace(text, at + needle.length);
		if (text[colon] !== ":") {
			at += needle.length;
			continue;
		}
		cuts += 1;
		if (cuts > MAX_CUTS)
			throw new UpstreamFault("provider_malformed", `the model endpoint repeats ${key} without end`);
		const end = skipSpace(text, endOfValue(text, skipSpace(text, colon + 1)));
		const start = startOfMember(text, at);
		if (text[end] === ",") text = text.slice(0, at) + text.slice(skipSpace(text, end + 1));
		else text = text.slice(0, start) + text.slice(end);
		at = start;
	}
	return text;
}

/** Where the comma before a member begins, if there is one. */
function startOfMember(text: string, at: number): number {
	let before = at;
	while (isSpace(text.charCodeAt(before - 1))) before -= 1;
	return text[before - 1] === "," ? before - 1 : before;
}

function endOfValue(text: string, at: number): number {
	const first = text[at];
	if (first === '"') return endOfString(text, at);
	if (first !== "{" && first !== "[") return endOfScalar(text, at);
	if (first === "[" && isFlat(text, at)) return text.indexOf("]", at) + 1;
	let depth = 0;
	for (let i = at; i < text.length; i += 1) {
		const code = text.charCodeAt(i);
		if (code === QUOTE) i = endOfString(text, i) - 1;
		else if (code === OPEN_BRACE || code === OPEN_BRACKET) depth += 1;
		else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
			depth -= 1;
			if (depth === 0) return i + 1;
		}
	}
	return text.length;
}

/** A list of numbers, such as a hundred thousand prompt ids: its first closing bracket is its own. */
function isFlat(text: string, at: number): boolean {
	const close = text.indexOf("]", at);
	const quote = text.indexOf('"', at);
	const open = text.indexOf("[", at + 1);
	return close > 0 && (quote < 0 || quote > close) && (open < 0 || open > close);
}

function endOfString(text: string, at: number): number {
	for (let i = at + 1; i < text.length; i += 1) {
		const code = text.charCodeAt(i);
		if (code === BACKSLASH) i += 1;
		else if (code === QUOTE) return i + 1;
	}
	return text.length;
}

function endOfScalar(text: string, at: number): number {
	for (let i = at; i < text.length; i += 1) {
		const code = text.charCodeAt(i);
		if (code === COMMA || code === CLOSE_BRACE || code === CLOSE_BRACKET || isSpace(code)) return i;
	}
	return text.length;
}

function skipSpace(text: string, at: number): number {
	let i = at;
	while (isSpace(text.charCodeAt(i))) i += 1;
	return i;
}

function isSpace(code: number): boolean {
	return code === 32 || code === 10 || code === 13 || code === 9;
}

const QUOTE = 34;
const COMMA = 44;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;
