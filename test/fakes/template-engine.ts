import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Json = Record<string, unknown>;
export type Message = { role: string; content?: unknown; tool_calls?: Json[]; [key: string]: unknown };

/** What the engine samples next: the raw tokens, and what its parser makes of them. */
export interface Sampled {
	raw: string;
	message: Message;
	finish?: string;
	/** Where the model spells its words with other tokens than the tokenizer would. */
	ids?: number[];
}

export interface TemplateEngine extends AsyncDisposable {
	baseUrl: string;
	/** How a conversation becomes a prompt. */
	template: (messages: Message[], tools: Json[], kwargs: Json) => string;
	next: Sampled[];
	/** Every chat request, as it came. */
	requests: Json[];
	/** Every conversation it was asked to render. */
	renders: Json[];
	ids: "used" | "ignored" | "refused";
	tokenize: "right" | "missing" | "wrong" | "hangs";
	/** The words with which it refuses a chat request, if it does. */
	refuse: (request: Json) => string | null;
	maxModelLength: number;
	/** Answers wait for it. */
	held: Promise<void> | null;
	/** Renders wait for it. */
	heldRenders: Promise<void> | null;
	/** How often it still breaks with status 500, or in the middle of a streamed answer. */
	breaks: number;
	dialect: "vllm" | "sglang";
}

const SPECIAL = /<\|[a-z_]+\|>/g;
const specials: string[] = [];

/** Special tokens are units, everything else goes by characters. */
export function toIds(text: string): number[] {
	const ids: number[] = [];
	let at = 0;
	const plain = (end: number) => {
		for (const character of text.slice(at, end)) ids.push(1000 + character.codePointAt(0)!);
	};
	for (const match of text.matchAll(SPECIAL)) {
		plain(match.index);
		if (!specials.includes(match[0])) specials.push(match[0]);
		ids.push(1 + specials.indexOf(match[0]));
		at = match.index + match[0].length;
	}
	plain(text.length);
	return ids;
}

/** ChatML, the commonest of all. A history's calls are printed anew, so odd spelling does not survive a second render. */
export function chatMl(messages: Message[], tools: Json[]): string {
	const head = tools.length > 0 ? `<|im_start|>system\ntools: ${JSON.stringify(tools)}<|im_end|>\n` : "";
	const turns = messages.map((message) => {
		const calls = (message.tool_calls ?? []).map((call) => {
			const { name, arguments: args } = call.function as { name: string; arguments: string };
			return `<|call|>${JSON.stringify({ name, arguments: readable(args) })}`;
		});
		const thought = message.reasoning_content ?? message.reasoning;
		const thinking = typeof thought === "string" && thought !== "" ? `<|think|>${thought}<|think_end|>` : "";
		return `<|im_start|>${message.role}\n${thinking}${String(message.content ?? "").trim()}${calls.join("")}<|im_end|>\n`;
	});
	return `${head}${turns.join("")}<|im_start|>assistant\n`;
}

function readable(args: string): unknown {
	try {
		return JSON.parse(args);
	} catch {
		return args;
	}
}

/** An engine of vLLM's or SGLang's dialect whose template, tokens and answers are the test's; over real HTTP. */
export async function openTemplateEngine(): Promise<TemplateEngine> {
	const engine: TemplateEngine = {
		baseUrl: "",
		template: chatMl,
		next: [],
		requests: [],
		renders: [],
		ids: "used",
		tokenize: "right",
		refuse: () => null,
		maxModelLength: 40_000,
		held: null,
		heldRenders: null,
		breaks: 0,
		dialect: "vllm",
		[Symbol.asyncDispose]: async () => {
			server.close();
			server.closeAllConnections();
		},
	};
	const server = createServer(async (request, response) => {
		const chunks: Buffer[] = [];
		for await (const chunk of request) chunks.push(chunk as Buffer);
		const body = JSON.parse(Buffer.concat(chunks).toString() || "{}") as Json;
		const isRender = request.url === (engine.dialect === "vllm" ? "/tokenize" : "/v1/tokenize");
		const answer = isRender ? render(engine, body) : complete(engine, body);
		if (answer === null) return;
		await (isRender ? engine.heldRenders : engine.held);
		if (!isRender && body.stream === true && answer.status === 200)
			return stream(engine, answer.body, response);
		response.writeHead(answer.status, { "content-type": "application/json" });
		response.end(JSON.stringify(answer.body));
	});
	server.listen(0, "127.0.0.1");
	await once(server, "listening");
	engine.baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
	return engine;
}

function promptOf(engine: TemplateEngine, body: Json): number[] {
	const kwargs = (body.chat_template_kwargs ?? {}) as Json;
	return toIds(engine.template(body.messages as Message[], (body.tools ?? []) as Json[], kwargs));
}

function render(engine: TemplateEngine, body: Json): { status: number; body: Json } | null {
	engine.renders.push(body);
	if (engine.tokenize === "hangs") return null;
	if (engine.tokenize === "missing") return { status: 404, body: {} };
	const tokens = promptOf(engine, body);
	return {
		status: 200,
		body: {
			tokens: engine.tokenize === "wrong" ? [7, ...tokens] : tokens,
			max_model_len: engine.maxModelLength,
		},
	};
}

function givenIds(engine: TemplateEngine, body: Json): number[] | undefined {
	if (engine.dialect === "sglang") return body.input_ids as number[] | undefined;
	return (body.kv_transfer_params as Json | undefined)?.prompt_token_ids as number[] | undefined;
}

function complete(engine: TemplateEngine, body: Json): { status: number; body: Json } {
	engine.requests.push(body);
	if (engine.breaks > 0 && body.stream !== true) {
		engine.breaks -= 1;
		return { status: 500, body: { error: { message: "the engine has died" } } };
	}
	const given = givenIds(engine, body);
	if (given !== undefined && engine.ids === "refused")
		return { status: 400, body: { error: { message: "kv_transfer_params: extra fields not permitted" } } };
	const refusal = engine.refuse(body);
	if (refusal !== null) return { status: 400, body: { error: { message: refusal } } };
	const prompt = given !== undefined && engine.ids === "used" ? given : promptOf(engine, body);
	// In vLLM's words.
	if (prompt.length > engine.maxModelLength)
		return {
			status: 400,
			body: {
				error: {
					message: `Input length (${prompt.length}) exceeds model's maximum context length (${engine.maxModelLength}).`,
				},
			},
		};
	if (prompt.length === engine.maxModelLength)
		return { status: 400, body: { error: { message: "max_tokens must be at least 1, got 0." } } };
	const sampled = engine.next.shift();
	if (sampled === undefined)
		return { status: 500, body: { error: { message: "the test has no more answers" } } };
	const ids = sampled.ids ?? toIds(sampled.raw);
	const choice = {
		index: 0,
		message: sampled.message,
		finish_reason: sampled.finish ?? (sampled.message.tool_calls ? "tool_calls" : "stop"),
	};
	return {
		status: 200,
		body: {
			id: "c",
			model: "m",
			...(engine.dialect === "vllm" ? inVllm(choice, prompt, ids) : inSglang(choice, prompt, ids)),
			usage: { prompt_tokens: prompt.length, completion_tokens: ids.length },
		},
	};
}

/** As vLLM streams: the prompt's ids with the first chunk, then two pieces, then the end. */
function stream(engine: TemplateEngine, whole: Json, response: ServerResponse): void {
	const { choices, usage, prompt_token_ids: prompt, ...head } = whole as Json & { choices: Json[] };
	const {
		message,
		token_ids: ids,
		logprobs,
		finish_reason: finish,
	} = choices[0] as Json & {
		message: Message;
		token_ids: number[];
		logprobs: { content: Json[] };
	};
	const { content, tool_calls: calls } = message;
	const cut = Math.ceil(ids.length / 2);
	const say = (choice: Json | null, more: Json = {}) => {
		const chunk = {
			...head,
			object: "chat.completion.chunk",
			choices: choice === null ? [] : [choice],
			...more,
		};
		response.write(`data: ${JSON.stringify(chunk)}\n\n`);
	};
	const piece = (delta: Json, from: number, to?: number) =>
		say({
			index: 0,
			delta,
			token_ids: ids.slice(from, to),
			logprobs: { content: logprobs.content.slice(from, to) },
			finish_reason: null,
		});
	response.writeHead(200, { "content-type": "text/event-stream" });
	say(
		{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null },
		{ prompt_token_ids: prompt },
	);
	piece({ content }, 0, cut);
	if (engine.breaks > 0) {
		engine.breaks -= 1;
		setImmediate(() => response.destroy());
		return;
	}
	piece(calls ? { tool_calls: calls.map((call, index) => ({ index, ...call })) } : {}, cut);
	say({ index: 0, delta: {}, finish_reason: finish });
	say(null, { usage });
	response.end("data: [DONE]\n\n");
}

function inVllm(choice: Json, prompt: number[], ids: number[]): Json {
	const logprobs = { content: ids.map((id) => ({ token: String(id), logprob: -0.1 })) };
	return { prompt_token_ids: prompt, choices: [{ ...choice, token_ids: ids, logprobs }] };
}

function inSglang(choice: Json, prompt: number[], ids: number[]): Json {
	const meta = { output_token_logprobs: ids.map((id) => [-0.1, id, String(id)]) };
	const tokens = { prompt_token_ids: prompt, response_token_ids: ids, meta_info: meta };
	return { choices: [{ ...choice, ...tokens }] };
}
