import { StringDecoder } from "node:string_decoder";
import { type Said, type Spoken, speak } from "./template.ts";
import { bytesOf, VOCABULARY_SIZE } from "./vocabulary.ts";

export interface Token {
	id: number | null;
	text: string;
	bytes: number[];
	logprob: number | null;
}

/** What a chunk adds to the message, in the spelling of the wire. */
export interface Delta {
	content?: string;
	reasoning?: string;
	tool_calls?: {
		index: number;
		id?: string;
		type?: "function";
		function: { name?: string; arguments: string };
	}[];
}

export interface Chunk {
	delta: Delta;
	tokens: Token[];
}

/** A whole reply, cut the way an engine streams it. */
export interface Completion {
	/** Null when the prompt's tokens are not known. */
	promptIds: number[] | null;
	promptTokens: number;
	chunks: Chunk[];
	finishReason: string;
	delayMs: number;
}

/** One chunk for each token, as an engine does that batches nothing. Cut at `maxTokens`, honestly. */
export function toChunks(
	said: Said,
	callId: (call: number) => string,
	maxTokens: number,
): { chunks: Chunk[]; finishReason: string } {
	const spoken = speak(said);
	const cut = spoken.length > maxTokens;
	const decoders = new Map<string, StringDecoder>();
	const chunks = spoken.slice(0, maxTokens).map((token, position): Chunk => {
		const bytes = bytesOf(token.id);
		const previous = spoken[position - 1]?.id ?? 0;
		return {
			delta: toDelta(token, bytes, said, callId, decoders),
			tokens: [
				{ id: token.id, text: bytes.toString(), bytes: [...bytes], logprob: logprobOf(token.id, previous) },
			],
		};
	});
	if (cut) return { chunks, finishReason: "length" };
	return { chunks, finishReason: said.calls.length > 0 ? "tool_calls" : "stop" };
}

/** A call is announced by the token that ends its name; a character of several tokens arrives with the last of them. */
function toDelta(
	token: Spoken,
	bytes: Buffer,
	said: Said,
	callId: (call: number) => string,
	decoders: Map<string, StringDecoder>,
): Delta {
	if (token.part === "control") return {};
	if (token.part === "call") {
		const name = said.calls[token.call]!.name;
		return {
			tool_calls: [
				{ index: token.call, id: callId(token.call), type: "function", function: { name, arguments: "" } },
			],
		};
	}
	const stream = token.part === "arguments" ? `arguments ${token.call}` : token.part;
	const decoder = decoders.get(stream) ?? new StringDecoder("utf8");
	decoders.set(stream, decoder);
	const text = decoder.write(bytes);
	if (text === "") return {};
	if (token.part === "text") return { content: text };
	if (token.part === "reasoning") return { reasoning: text };
	return { tool_calls: [{ index: token.call, function: { arguments: text } }] };
}

/** Between -3 and 0, the same each time for the same pair of tokens, and exact in 32 bits. */
function logprobOf(id: number, previous: number): number {
	const mixed =
		Math.imul(Math.imul(id + 1, 0x9e3779b1) ^ Math.imul(previous + 1, 0x85ebca6b), 0xc2b2ae35) >>> 0;
	return Math.fround(-3 * (mixed / 2 ** 32) ** 4 - 1e-4);
}

/** Other tokens that could have come, each less likely than the one that did. */
export function alternatives(token: Token, count: number): Token[] {
	const chosen = token.logprob ?? 0;
	return Array.from({ length: count }, (_, rank): Token => {
		if (rank === 0) return token;
		const id = ((token.id ?? 0) + rank * 97) % VOCABULARY_SIZE;
		const bytes = bytesOf(id);
		return { id, text: bytes.toString(), bytes: [...bytes], logprob: Math.fround(chosen - rank) };
	});
}
