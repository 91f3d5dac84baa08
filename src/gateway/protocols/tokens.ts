import type { Alternative } from "../../model/call.ts";
import { UpstreamFault } from "../upstream/fault.ts";
import { isObject, type JsonObject, toArray } from "./protocol.ts";

/** What engines report for "no logprob": a real one is never that low. */
const SENTINEL = -9999;

/** Of one answer. An endpoint is anybody's, and a token takes little to send and much to keep. */
const MAX_TOKENS = 4_000_000;
const MAX_ALTERNATIVES = 20;
const MAX_TEXT = 200;

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

	/** `entries` are the protocol's logprob objects `{token, logprob}` that belong to `ids`. */
	add(ids: unknown, entries: unknown): void {
		const newIds = toArray(ids);
		const newEntries = toArray(entries);
		if (this.logprobs.length + Math.max(newIds.length, newEntries.length) > MAX_TOKENS)
			throw new UpstreamFault("provider_malformed", "the model endpoint's answer has too many tokens");
		for (const id of newIds) this.ids.push(typeof id === "number" ? id : -1);
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
		const isValid = typeof value === "number" && Number.isFinite(value) && value > SENTINEL;
		if (!isValid) this.invalid.push(this.logprobs.length);
		this.logprobs.push(isValid ? value : SENTINEL);
		this.texts.push(typeof entry.token === "string" ? entry.token : "");
		this.alternatives.push(toAlternatives(entry.top_logprobs));
	}
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
