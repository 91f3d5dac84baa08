import { type Alternative, isLogprob, NO_LOGPROB } from "../../model/call.ts";
import { UpstreamFault } from "../upstream/fault.ts";
import { isObject, type JsonObject, toArray } from "./protocol.ts";

/** Of one answer. An endpoint is anybody's, and a token takes little to send and much to keep. */
const MAX_TOKENS = 4_000_000;
const MAX_ALTERNATIVES = 20;
const MAX_TEXT = 200;
/** No model has a vocabulary of that size. */
const MAX_VOCABULARY = 2 ** 24;
/** In the place of what is no id: whoever looks finds a number that is none. */
const NO_ID = -1;

/** The sampled tokens as columns of equal length, or empty columns where the engine hands nothing out. */
export class TokenColumns {
	promptIds: number[] = [];
	readonly ids: number[] = [];
	readonly texts: string[] = [];
	readonly logprobs: number[] = [];
	readonly invalid: number[] = [];
	/** What could have been sampled instead, one list for each logprob. */
	readonly alternatives: Alternative[][] = [];

	#hasLogprobs = false;

	/** False when another prompt was named before. */
	setPrompt(ids: unknown[]): boolean {
		const known = this.promptIds;
		requireRoom(ids.length);
		this.promptIds = ids.map(toId);
		return known.length === 0 || isSame(known, this.promptIds);
	}

	/** `entries` are the protocol's logprob objects `{token, logprob}` that belong to `ids`. */
	add(ids: unknown, entries: unknown): void {
		const newIds = toArray(ids);
		const newEntries = toArray(entries);
		requireRoom(this.logprobs.length + Math.max(newIds.length, newEntries.length));
		for (const id of newIds) this.ids.push(toId(id));
		for (const entry of newEntries) this.#addEntry(isObject(entry) ? entry : {});
		if (newEntries.length > 0) this.#hasLogprobs = true;
		// An id without its logprob keeps its place, so that all later ones stay aligned.
		for (let i = newEntries.length; i < newIds.length; i += 1) this.#addEntry({});
	}

	/** Called once, at the end: an engine that gave no logprob at all leaves the columns empty. */
	settle(): void {
		if (this.#hasLogprobs) return;
		this.logprobs.length = 0;
		this.texts.length = 0;
		this.invalid.length = 0;
		this.alternatives.length = 0;
	}

	#addEntry(entry: JsonObject): void {
		const value = entry.logprob;
		const isValid = isLogprob(value);
		if (!isValid) this.invalid.push(this.logprobs.length);
		this.logprobs.push(isValid ? value : NO_LOGPROB);
		this.texts.push(typeof entry.token === "string" ? entry.token : "");
		this.alternatives.push(toAlternatives(entry.top_logprobs));
	}
}

function requireRoom(tokens: number): void {
	if (tokens > MAX_TOKENS)
		throw new UpstreamFault("provider_malformed", "the model endpoint's answer has too many tokens");
}

function toId(value: unknown): number {
	const isId = Number.isInteger(value) && (value as number) >= 0 && (value as number) < MAX_VOCABULARY;
	return isId ? (value as number) : NO_ID;
}

export function isSame(one: readonly unknown[], other: readonly unknown[]): boolean {
	return one.length === other.length && one.every((value, at) => value === other[at]);
}

/** Six digits are what a float of the engine holds; the rest would fill the disk. */
function toAlternatives(entries: unknown): Alternative[] {
	return toArray(entries)
		.slice(0, MAX_ALTERNATIVES)
		.flatMap((entry) =>
			isObject(entry) && typeof entry.token === "string" && typeof entry.logprob === "number"
				? [{ token: entry.token.slice(0, MAX_TEXT), logprob: Number(entry.logprob.toPrecision(6)) }]
				: [],
		);
}
