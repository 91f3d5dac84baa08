import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { toSamples } from "../../src/export/samples.ts";
import { Sampling } from "../../src/model/request.ts";
import type { Certificate } from "../../src/model/sample.ts";
import { readCalls, TraceWriter } from "../../src/store/trace/trace-log.ts";
import {
	type Chunk,
	HELLO,
	json,
	PROMPT_IDS,
	sglangBody,
	sse,
	stream,
	streams,
	tokenChunk,
	vllmChunks,
} from "../fakes/replies.ts";
import type { JsonObject, Reaction } from "../fakes/upstream.ts";
import { CHAT, openStation } from "./station.ts";

interface Given {
	dialect?: "vllm" | "sglang";
	sampling?: object;
}

/** What an engine says, through the gateway over real sockets, into the log, out of it again, and judged. */
async function certify(
	reaction: Reaction,
	{ dialect = "vllm", sampling = {} }: Given = {},
): Promise<Certificate> {
	const log: Uint8Array[] = [];
	await using station = await openStation(reaction, { limits: { maxFailures: 1 } });
	const { baseUrl } = station.upstream;
	await using tap = station.open({
		sink: new TraceWriter(async (bytes) => void log.push(bytes)),
		sampling: Sampling.parse(sampling),
		endpoint: { name: "e", baseUrl, model: "m", dialect, disableThinking: false },
	});
	await station.ask(tap.key, CHAT);
	return (await toSamples(readCalls(() => Readable.from(log)))).certificate;
}

/** An answer of three tokens, changed; the chunk of the second token has the index 2, the usage is last. */
function streamed(change: (chunks: Chunk[]) => Chunk[] | undefined): Reaction {
	const chunks = vllmChunks();
	return stream([...(change(chunks) ?? chunks), "[DONE]"].map(sse).join(""));
}

function inText(from: string, to: string): Reaction {
	expect(streams.vllm()).toContain(from);
	return stream(streams.vllm().replace(from, to));
}

/** One of the three tokens comes otherwise. */
const odd = (fields: JsonObject) =>
	streamed((chunks) => {
		Object.assign(chunks[2]!.choices[0]!, fields);
		return undefined;
	});
const oddId = (...ids: unknown[]) => odd({ token_ids: ids });
const oddLogprob = (...logprobs: unknown[]) =>
	odd({ logprobs: { content: logprobs.map((logprob) => ({ token: "lo ✓", logprob })) } });
const oddChunk = (fields: JsonObject) =>
	streamed((chunks) => {
		Object.assign(chunks[2]!, fields);
		return undefined;
	});
const oddPrompt = (ids: unknown) =>
	streamed((chunks) => {
		chunks[0]!.prompt_token_ids = ids;
		return undefined;
	});
const billed = (chunks: Chunk[], completion: unknown): Chunk[] =>
	chunks.with(-1, {
		...chunks.at(-1)!,
		usage: { prompt_tokens: PROMPT_IDS.length, completion_tokens: completion },
	});
const oddUsage = (completion: unknown) => streamed((chunks) => billed(chunks, completion));
const choices = (chunks: Chunk[], change: (choice: JsonObject) => JsonObject): Chunk[] =>
	chunks.map((chunk) => ({ ...chunk, choices: chunk.choices.map(change) }));
const beforeUsage = (chunks: Chunk[], chunk: Chunk): Chunk[] => chunks.toSpliced(-1, 0, chunk);
const another = tokenChunk([14, "!", -0.1]);

function whole(change: (choice: JsonObject, body: JsonObject) => void): Reaction {
	const body = sglangBody();
	change((body.choices as JsonObject[])[0]!, body);
	return json(body);
}
const SGLANG: Given = { dialect: "sglang" };

const NO_LOGPROB = /1 of 3 tokens have no true logprob/;
const NO_ID = /a token id is not a number of the vocabulary/;
const SEVERAL = /pieces of several answers/;

const ANSWERS: [what: string, reaction: Reaction, reason: RegExp, given?: Given][] = [
	[
		"no logprobs",
		streamed((all) => choices(all, (choice) => ({ ...choice, logprobs: null }))),
		/no logprobs/,
	],
	["no logprob for one token", odd({ logprobs: null }), NO_LOGPROB],
	["two logprobs for one token", oddLogprob(-0.5, -1), /4 logprobs for 3 tokens/],
	["a positive logprob", oddLogprob(0.5), NO_LOGPROB],
	["a logprob as text", oddLogprob("-0.5"), NO_LOGPROB],
	["null for a logprob", oddLogprob(null), NO_LOGPROB],
	["NaN as Python prints it", inText('"logprob":-0.5', '"logprob":NaN'), NO_LOGPROB],
	["an infinite logprob", inText('"logprob":-0.5', '"logprob":-Infinity'), NO_LOGPROB],
	["an engine's number for none", oddLogprob(-9999), NO_LOGPROB],
	[
		"raw logprobs at a temperature",
		streamed((all) => all),
		/temperature 0.7/,
		{ sampling: { temperature: 0.7 } },
	],
	["no ids", streamed((all) => choices(all, ({ token_ids: _, ...rest }) => rest)), /no token ids/],
	["an id left out", odd({ token_ids: undefined }), /3 logprobs for 2 tokens/],
	["two ids for one logprob", oddId(12, 99), /4 tokens captured, 3 billed/],
	[
		"two ids for one logprob, both billed",
		streamed((all) => {
			all[2]!.choices[0]!.token_ids = [12, 99];
			return billed(all, 4);
		}),
		/1 of 4 tokens have no true logprob/,
	],
	["a negative id", oddId(-7), NO_ID],
	["half an id", oddId(12.5), NO_ID],
	["an id beyond any vocabulary", oddId(2 ** 30), NO_ID],
	["an id that no log can hold", oddId(2 ** 40), NO_ID],
	["an id as text", oddId("12"), NO_ID],
	["a list for an id", oddId([12]), NO_ID],
	["no prompt ids", oddPrompt(undefined), /no prompt token ids/],
	["a prompt id as text", oddPrompt([1, "2", 3, 4]), NO_ID],
	["half a prompt id", oddPrompt([1, 2.5, 3, 4]), NO_ID],
	["fewer prompt ids than billed", oddPrompt([1, 2, 3]), /3 prompt tokens captured, 4 billed/],
	["other prompt ids later on", oddChunk({ prompt_token_ids: [1, 2, 3, 5] }), /two prompts/],
	["a chunk twice", streamed((all) => all.toSpliced(2, 0, all[2]!)), /4 tokens captured, 3 billed/],
	["a chunk less", streamed((all) => all.toSpliced(2, 1)), /2 tokens captured, 3 billed/],
	["a token after its end", streamed((all) => beforeUsage(all, another)), /4 tokens captured, 3 billed/],
	[
		"a billed token after its end",
		streamed((all) => billed(beforeUsage(all, another), 4)),
		/went on after its end/,
	],
	[
		"words after its end",
		streamed((all) => beforeUsage(all, { ...another, choices: [{ index: 0, delta: { content: "!" } }] })),
		/went on after its end/,
	],
	[
		"no finish reason",
		streamed((all) => choices(all, (choice) => ({ ...choice, finish_reason: null }))),
		/no finish reason/,
	],
	["no usage", streamed((all) => all.slice(0, -1)), /reported no usage/],
	["more billed than sent", oddUsage(9), /3 tokens captured, 9 billed/],
	["nothing billed", oddUsage(0), /3 tokens captured, 0 billed/],
	["half a token billed", oddUsage(3.5), /3 tokens captured, 0 billed/],
	["tokens billed as text", oddUsage("3"), /3 tokens captured, 0 billed/],
	[
		"words without tokens, nothing billed",
		streamed((all) =>
			billed(
				choices(all, ({ token_ids: _, logprobs: __, ...rest }) => rest),
				0,
			),
		),
		/no token ids/,
	],
	[
		"a second choice",
		streamed((all) => beforeUsage(all, { ...another, choices: [{ ...another.choices[0], index: 1 }] })),
		SEVERAL,
	],
	[
		"two choices of one number",
		streamed((all) => {
			all[2]!.choices.push({ ...another.choices[0], index: 0 });
			return undefined;
		}),
		SEVERAL,
	],
	["pieces of two answers", oddChunk({ id: "chatcmpl-2" }), SEVERAL],
	["pieces of two models", oddChunk({ model: "another-model" }), SEVERAL],
	[
		"half a stream",
		stream(streams.vllm().slice(0, streams.vllm().indexOf(" wörld"))),
		/no call brought a token/,
	],
	[
		"a stream without its last words",
		stream(vllmChunks().slice(0, 3).map(sse).join("")),
		/no call brought a token/,
	],
	[
		"two choices in one piece",
		whole((choice, body) => {
			body.choices = [{ ...choice, index: 1 }, choice];
		}),
		SEVERAL,
		SGLANG,
	],
	[
		"ids that differ in two places",
		whole((choice) => {
			choice.response_token_ids = [11, 99, 13];
		}),
		/ids that differ/,
		SGLANG,
	],
	[
		"a positive logprob in one piece",
		whole((choice) => {
			(choice.logprobs as { content: JsonObject[] }).content[1]!.logprob = 2;
		}),
		NO_LOGPROB,
		SGLANG,
	],
	[
		"an id as text in one piece",
		whole((choice) => {
			choice.response_token_ids = [11, "12", 13];
		}),
		NO_ID,
		SGLANG,
	],
];

test.each(ANSWERS)("an answer with %s is not trained on", async (_, reaction, reason, given) => {
	const certificate = await certify(reaction, given);
	expect(certificate.reasons.join("\n")).toMatch(reason);
	expect(certificate.trainable).toBe(false);
});

const HALVES = [
	[11, "\ufffd", -0.25],
	[12, "é", -0.5],
] as const;
const FINE: [what: string, reaction: Reaction, tokens: number, given?: Given][] = [
	["everything", stream(streams.vllm()), HELLO.length],
	["everything in one piece", json(sglangBody()), HELLO.length, SGLANG],
	["a character in two tokens", stream(streams.vllm([...HALVES])), 2],
	["the prompt named twice alike", oddChunk({ prompt_token_ids: [...PROMPT_IDS] }), HELLO.length],
	["a rounded certainty", oddLogprob(1e-7), HELLO.length],
	[
		"an empty chunk after its end",
		streamed((all) => beforeUsage(all, { ...another, choices: [{ index: 0, delta: {} }] })),
		HELLO.length,
	],
];

test.each(FINE)("an answer with %s is trained on", async (_, reaction, tokens, given) => {
	expect(await certify(reaction, given)).toMatchObject({
		trainable: true,
		reasons: [],
		trainedTokens: tokens,
	});
});
