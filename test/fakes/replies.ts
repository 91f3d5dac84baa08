import type { Exchange, JsonObject, Reaction } from "./upstream.ts";

/** A sampled token: id, text, logprob. */
export type Token = readonly [id: number, text: string, logprob: number];

export const HELLO: Token[] = [
	[11, "Hel", -0.25],
	[12, "lo ✓", -0.5],
	[13, " wörld", -1.5],
];

export const PROMPT_IDS = [1, 2, 3, 4];

export const sse = (data: unknown): string =>
	`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;

const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "engine-model" };

const usageOf = (tokens: Token[]): JsonObject => ({
	prompt_tokens: PROMPT_IDS.length,
	completion_tokens: tokens.length,
	total_tokens: PROMPT_IDS.length + tokens.length,
});

const logprobsOf = (tokens: Token[]): JsonObject => ({
	content: tokens.map(([, token, logprob]) => ({
		token,
		logprob,
		bytes: [...Buffer.from(token)],
		top_logprobs: [],
	})),
});

export type Chunk = JsonObject & { choices: JsonObject[] };

/** One token as vLLM sends it. */
export const tokenChunk = (token: Token, finishReason: string | null = null): Chunk => ({
	...head,
	choices: [
		{
			index: 0,
			delta: { content: token[1] },
			logprobs: logprobsOf([token]),
			finish_reason: finishReason,
			token_ids: [token[0]],
		},
	],
});

/** The prompt, each token, the usage: all but the end of the stream. */
export const vllmChunks = (tokens: Token[] = HELLO): Chunk[] => [
	{
		...head,
		choices: [{ index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }],
		prompt_token_ids: PROMPT_IDS,
	},
	...tokens.map((token, at) => tokenChunk(token, at === tokens.length - 1 ? "stop" : null)),
	{ ...head, choices: [], usage: usageOf(tokens) },
];

/** Streams as each kind of engine writes them. */
export const streams = {
	vllm: (tokens: Token[] = HELLO): string => [...vllmChunks(tokens), "[DONE]"].map(sse).join(""),
	openai: (tokens: Token[] = HELLO): string =>
		[
			sse({
				...head,
				choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }],
			}),
			...tokens.map((token) =>
				sse({
					...head,
					choices: [
						{ index: 0, delta: { content: token[1] }, logprobs: logprobsOf([token]), finish_reason: null },
					],
				}),
			),
			sse({ ...head, choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: "stop" }] }),
			sse({ ...head, choices: [], usage: usageOf(tokens) }),
			sse("[DONE]"),
		].join(""),
	plain: (tokens: Token[] = HELLO): string =>
		[
			...tokens.map((token) =>
				sse({ ...head, choices: [{ index: 0, delta: { content: token[1] }, finish_reason: null }] }),
			),
			sse({ ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }),
			sse({ ...head, choices: [], usage: usageOf(tokens) }),
			sse("[DONE]"),
		].join(""),
};

/** SGLang's unstreamed answer. */
export function sglangBody(tokens: Token[] = HELLO): JsonObject {
	return {
		id: "chatcmpl-1",
		object: "chat.completion",
		created: 1,
		model: "engine-model",
		choices: [
			{
				index: 0,
				message: { role: "assistant", content: tokens.map(([, text]) => text).join("") },
				logprobs: logprobsOf(tokens),
				finish_reason: "stop",
				prompt_token_ids: PROMPT_IDS,
				response_token_ids: tokens.map(([id]) => id),
				meta_info: { output_token_logprobs: tokens.map(([id, text, logprob]) => [logprob, id, text]) },
			},
		],
		usage: usageOf(tokens),
	};
}

/** Answers with these bytes as one stream. */
export const stream =
	(text: string | Buffer): Reaction =>
	({ response }) => {
		startStream({ response });
		response.end(text);
	};

export const json =
	(body: JsonObject, status = 200, headers: Record<string, string> = {}): Reaction =>
	({ response }) => {
		response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
	};

export const refusal = (status: number, message: string, code = "refused"): Reaction =>
	json({ error: { message, type: "error", code } }, status);

export function startStream({ response }: Pick<Exchange, "response">): void {
	response.writeHead(200, { "content-type": "text/event-stream" });
}
