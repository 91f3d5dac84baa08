import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { toTimerMs } from "../model/duration.ts";
import type { ChatRequest } from "./chat.ts";
import { alternatives, type Chunk, type Completion, type Token } from "./completion.ts";

/** How fast a scripted model speaks; without these, as fast as the reader reads. */
export interface Pace {
	tokensPerSecond?: number;
	firstTokenMs?: number;
}

/** Answers as vLLM does: ids and logprobs only when asked for. */
export async function respond(
	response: ServerResponse,
	request: ChatRequest,
	completion: Completion,
	pace: Pace,
	id: string,
): Promise<void> {
	const gone = new AbortController();
	response.once("close", () => gone.abort());
	try {
		await wait(completion.delayMs + (pace.firstTokenMs ?? 0), gone.signal);
		if (request.stream) await stream(response, request, completion, pace, id, gone.signal);
		else await whole(response, request, completion, pace, id, gone.signal);
	} catch (error) {
		if (!gone.signal.aborted) throw error;
	}
}

async function stream(
	response: ServerResponse,
	request: ChatRequest,
	completion: Completion,
	pace: Pace,
	id: string,
	signal: AbortSignal,
): Promise<void> {
	const frame = {
		id,
		object: "chat.completion.chunk",
		created: Math.floor(Date.now() / 1000),
		model: request.model,
	};
	const send = async (body: object) => {
		if (!response.write(`data: ${JSON.stringify({ ...frame, ...body })}\n\n`))
			await once(response, "drain", { signal });
	};
	response.writeHead(200, {
		"content-type": "text/event-stream; charset=utf-8",
		"cache-control": "no-cache",
	});
	const withIds = request.return_token_ids === true;
	const role = { index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null };
	const promptIds =
		withIds && completion.promptIds !== null ? { prompt_token_ids: completion.promptIds } : {};
	await send({ choices: [role], ...promptIds });

	const beginMs = performance.now();
	let sent = 0;
	for (const [position, chunk] of completion.chunks.entries()) {
		sent += chunk.tokens.length;
		if (pace.tokensPerSecond)
			await wait(beginMs + (sent * 1000) / pace.tokensPerSecond - performance.now(), signal);
		const isLast = position === completion.chunks.length - 1;
		// A chunk without text is worth sending only to somebody who wants its ids, or the reason for the end.
		if (!withIds && !isLast && Object.keys(chunk.delta).length === 0) continue;
		await send({ choices: [toChoice(request, chunk, isLast ? completion.finishReason : null)] });
	}
	if (request.stream_options?.include_usage) await send({ choices: [], usage: usageOf(completion) });
	response.end("data: [DONE]\n\n");
}

function toChoice(request: ChatRequest, chunk: Chunk, finishReason: string | null): object {
	return {
		index: 0,
		delta: chunk.delta,
		logprobs: toLogprobs(request, chunk.tokens),
		finish_reason: finishReason,
		...(finishReason === null ? {} : { stop_reason: null }),
		...toTokenIds(request, chunk.tokens),
	};
}

async function whole(
	response: ServerResponse,
	request: ChatRequest,
	completion: Completion,
	pace: Pace,
	id: string,
	signal: AbortSignal,
): Promise<void> {
	const tokens = completion.chunks.flatMap((chunk) => chunk.tokens);
	if (pace.tokensPerSecond) await wait((tokens.length * 1000) / pace.tokensPerSecond, signal);
	const withIds = request.return_token_ids === true && completion.promptIds !== null;
	const body = {
		id,
		object: "chat.completion",
		created: Math.floor(Date.now() / 1000),
		model: request.model,
		choices: [
			{
				index: 0,
				message: toMessage(completion),
				logprobs: toLogprobs(request, tokens),
				finish_reason: completion.finishReason,
				stop_reason: null,
				...toTokenIds(request, tokens),
			},
		],
		usage: usageOf(completion),
		...(withIds ? { prompt_token_ids: completion.promptIds } : {}),
	};
	response.writeHead(200, { "content-type": "application/json" });
	response.end(JSON.stringify(body));
}

/** The deltas put together again. */
function toMessage(completion: Completion): Record<string, unknown> {
	let content = "";
	let reasoning = "";
	const calls: { id: string; type: "function"; function: { name: string; arguments: string } }[] = [];
	for (const { delta } of completion.chunks) {
		content += delta.content ?? "";
		reasoning += delta.reasoning ?? "";
		for (const part of delta.tool_calls ?? []) {
			calls[part.index] ??= {
				id: part.id ?? "",
				type: "function",
				function: { name: part.function.name ?? "", arguments: "" },
			};
			calls[part.index]!.function.arguments += part.function.arguments;
		}
	}
	return {
		role: "assistant",
		content: content === "" && calls.length > 0 ? null : content,
		...(reasoning === "" ? {} : { reasoning }),
		...(calls.length === 0 ? {} : { tool_calls: calls }),
	};
}

function toTokenIds(request: ChatRequest, tokens: Token[]): object {
	if (request.return_token_ids !== true || tokens.some((token) => token.id === null)) return {};
	return { token_ids: tokens.map((token) => token.id) };
}

function toLogprobs(request: ChatRequest, tokens: Token[]): object | null {
	if (request.logprobs !== true || tokens.some((token) => token.logprob === null)) return null;
	const entry = (token: Token) => ({ token: token.text, logprob: token.logprob, bytes: token.bytes });
	return {
		content: tokens.map((token) => ({
			...entry(token),
			top_logprobs: alternatives(token, request.top_logprobs ?? 0).map(entry),
		})),
	};
}

function usageOf(completion: Completion): object {
	const completionTokens = completion.chunks.reduce((sum, chunk) => sum + chunk.tokens.length, 0);
	return {
		prompt_tokens: completion.promptTokens,
		completion_tokens: completionTokens,
		total_tokens: completion.promptTokens + completionTokens,
	};
}

async function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
	if (milliseconds >= 1) await sleep(toTimerMs(milliseconds), undefined, { signal });
}
