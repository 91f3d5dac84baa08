import type { Usage } from "../../model/call.ts";
import { SAMPLING_NAMES } from "../../model/sampling.ts";
import { UpstreamFault } from "../upstream/fault.ts";
import { ChatMessage } from "./chat-message.ts";
import { patchChat } from "./chat-request.ts";
import { chatShape } from "./chat-shape.ts";
import { cutField } from "./cut.ts";
import { emptyStream, faultOfErrorEvent, parseEventData, truncatedStream } from "./event-data.ts";
import { toBearer, toOpenAiError, toOpenAiUsage } from "./openai.ts";
import {
	type EngineAnswer,
	type Hidden,
	isObject,
	type JsonObject,
	type Protocol,
	type Step,
	toArray,
	toCount,
	toText,
} from "./protocol.ts";
import { type SseEvent, toSse } from "./sse.ts";
import { isSame, TokenColumns } from "./tokens.ts";

const MAX_VERSION = 200;
const DONE = "data: [DONE]\n\n";

/** OpenAI chat completions: the only protocol over which engines hand out token ids. */
export const chat: Protocol = {
	name: "chat",
	path: "/chat/completions",
	shape: chatShape,
	conversationField: "messages",
	carriesTokens: true,
	sampling: SAMPLING_NAMES,
	takesSeed: true,
	lengthField: (engine) => (engine.wantsMaxCompletionTokens ? "max_completion_tokens" : "max_tokens"),
	patch: patchChat,
	toCredentials: toBearer,
	startAnswer: (hidden) => new ChatAnswer(hidden),
	split({ messages, tools, ...params }) {
		return { messages: toArray(messages), tools: toArray(tools), params };
	},
	systemOf: () => undefined,
	toErrorBody: toOpenAiError,
};

class ChatAnswer implements EngineAnswer {
	readonly #hidden: Hidden;
	readonly #message = new ChatMessage();
	readonly tokens = new TokenColumns();
	readonly losses: string[] = [];
	readonly contradictions = new Set<string>();
	#id: string | null = null;
	isEnded = false;
	#sentUsage = false;
	finishReason: string | null = null;
	usage: Usage | null = null;
	engine: string | null = null;
	readonly weightVersions: string[] = [];
	model: string | null = null;

	constructor(hidden: Hidden) {
		this.#hidden = hidden;
	}

	get pieces(): number {
		return this.#message.pieces;
	}

	get message(): JsonObject | null {
		return this.#message.toJson();
	}

	take(event: SseEvent): Step {
		if (event.data === null) return { forward: event.raw, last: this.finishReason !== null };
		if (event.data === "[DONE]") {
			this.isEnded = true;
			return { forward: null, last: true };
		}
		const { value: chunk, isRepaired } = parseEventData(event.data);
		this.#readCommon(chunk);
		const choice = this.#onlyChoice(chunk);
		if (isObject(choice)) this.#readChoice(choice);
		const isUsageOnly = this.#readUsage(chunk) && !isObject(choice);
		if (isUsageOnly && this.#hidden.usage) return { forward: null, last: true };
		const last = this.finishReason !== null;
		const fields = this.#toHide(chunk, choice);
		if (fields.length === 0 && !isRepaired) return { forward: event.raw, last };
		const text = isRepaired ? JSON.stringify(chunk) : event.data;
		return { forward: toSse(fields.reduce(cutField, text)), last };
	}

	close(): string[] {
		this.tokens.settle();
		if (this.finishReason === null && this.#message.isEmpty && this.tokens.ids.length === 0)
			throw emptyStream();
		if (this.finishReason === null && !this.isEnded) throw truncatedStream("without a finish reason");
		const tail: string[] = [];
		if (this.finishReason === null) {
			this.losses.push("finish_reason missing");
			this.contradictions.add(NO_END);
			this.finishReason = this.#message.hasToolCalls ? "tool_calls" : "stop";
			tail.push(toSse(JSON.stringify(this.#chunk({ delta: {}, finish_reason: this.finishReason }))));
		}
		if (this.usage === null) this.losses.push("usage missing");
		if (!this.#sentUsage && !this.#hidden.usage) tail.push(...this.#usageEvent());
		tail.push(DONE);
		return tail;
	}

	takeWhole(body: JsonObject): JsonObject {
		this.#readCommon(body);
		this.#readUsage(body);
		const choice = this.#onlyChoice(body);
		if (!isObject(choice) || !isObject(choice.message))
			throw new UpstreamFault("provider_malformed", "the model endpoint's answer holds no choice");
		this.#readChoice({ ...choice, delta: choice.message });
		if (this.finishReason === null)
			throw new UpstreamFault("provider_malformed", "the model endpoint's answer holds no finish reason");
		this.tokens.settle();
		for (const field of this.#toHide(body, choice)) {
			delete body[field];
			delete choice[field];
		}
		return body;
	}

	toEvents(body: JsonObject): string[] {
		const choice = toArray(body.choices)[0] as JsonObject;
		const { role: _role, tool_calls: toolCalls, ...rest } = choice.message as JsonObject;
		const texts = Object.fromEntries(Object.entries(rest).filter(([, value]) => typeof value === "string"));
		const calls = toArray(toolCalls).map((call, index) => ({ ...(call as JsonObject), index }));
		const deltas: JsonObject[] = [{ role: "assistant", content: "" }];
		if (Object.keys(texts).length > 0) deltas.push(texts);
		if (calls.length > 0) deltas.push({ tool_calls: calls });
		const chunks = deltas.map((delta) => this.#chunk({ delta, finish_reason: null }));
		chunks.push(this.#chunk({ delta: {}, finish_reason: this.finishReason }));
		return [
			...chunks.map((chunk) => toSse(JSON.stringify(chunk))),
			...(this.#hidden.usage ? [] : this.#usageEvent()),
			DONE,
		];
	}

	#readCommon(chunk: JsonObject): void {
		if (chunk.error !== undefined && chunk.error !== null) throw faultOfErrorEvent(chunk.error);
		const [id, model] = [toText(chunk.id), toText(chunk.model)];
		if (isOther(this.#id, id) || isOther(this.model, model)) this.contradictions.add(SEVERAL_ANSWERS);
		this.#id ??= id;
		this.model ??= model;
		// vLLM says it on the last chunk, others on every one.
		this.engine ??= toText(chunk.system_fingerprint);
		this.#readPrompt(chunk);
	}

	#readPrompt({ prompt_token_ids: ids }: JsonObject): void {
		if (Array.isArray(ids) && !this.tokens.setPrompt(ids)) this.contradictions.add(TWO_PROMPTS);
	}

	/** One was asked for. Of several, the first is the agent's, and none is trained on. */
	#onlyChoice({ choices }: JsonObject): JsonObject | undefined {
		const given = toArray(choices).filter(isObject);
		const first = given.find(({ index }) => toCount(index) === 0);
		if (given.length > (first ? 1 : 0)) this.contradictions.add(SEVERAL_ANSWERS);
		return first;
	}

	#readChoice(choice: JsonObject): void {
		const meta = isObject(choice.meta_info) ? choice.meta_info : {};
		const before = this.tokens.ids.length + this.tokens.logprobs.length + this.#message.pieces;
		this.#readPrompt(choice);
		const logprobs = isObject(choice.logprobs) ? choice.logprobs.content : entriesOfMeta(meta);
		const [ids, idsBesideLogprobs] = [choice.token_ids ?? choice.response_token_ids, idsOfMeta(meta)];
		if (Array.isArray(ids) && idsBesideLogprobs.length > 0 && !isSame(ids, idsBesideLogprobs))
			this.contradictions.add(OTHER_IDS);
		this.tokens.add(ids ?? idsBesideLogprobs, logprobs);
		this.#readWeights(choice, meta);
		if (isObject(choice.delta)) this.#message.add(choice.delta);
		const after = this.tokens.ids.length + this.tokens.logprobs.length + this.#message.pieces;
		if (this.finishReason !== null && after > before) this.contradictions.add(WENT_ON);
		const finishReason = toText(choice.finish_reason);
		// Not an end the model chose; an agent that gets it as one goes round in circles.
		if (finishReason === "abort" || finishReason === "error")
			throw new UpstreamFault("provider_error", `the model endpoint gave up on its answer (${finishReason})`);
		this.finishReason = finishReason ?? this.finishReason;
	}

	/** SGLang names the weights of the whole answer, vLLM those of each span of it. */
	#readWeights(choice: JsonObject, meta: JsonObject): void {
		const spans = toArray(choice.weight_versions).map((span) => (isObject(span) ? span.version : null));
		for (const version of [meta.weight_version, ...spans])
			if (typeof version === "string" && version !== "" && version.length <= MAX_VERSION)
				this.weightVersions.push(version);
	}

	#readUsage(chunk: JsonObject): boolean {
		if (!isObject(chunk.usage)) return false;
		this.usage = toOpenAiUsage(chunk.usage, "prompt", "completion");
		this.#sentUsage = true;
		return true;
	}

	/** What only we asked for and is there. */
	#toHide(chunk: JsonObject, choice: unknown): string[] {
		const fields: string[] = [];
		if (chunk.prompt_token_ids !== undefined) fields.push("prompt_token_ids");
		if (!isObject(choice)) return fields;
		if (choice.logprobs !== undefined) fields.push("logprobs");
		for (const field of ID_FIELDS) if (choice[field] !== undefined) fields.push(field);
		return fields;
	}

	#chunk(choice: JsonObject): JsonObject {
		return {
			id: this.#id ?? "chatcmpl-paddock",
			object: "chat.completion.chunk",
			created: Math.floor(Date.now() / 1000),
			model: this.model,
			choices: [{ index: 0, ...choice }],
		};
	}

	/** The agent reckons its context by usage, so an engine that forgot it is made up for from its own ids. */
	#usageEvent(): string[] {
		const prompt = this.usage?.promptTokens ?? this.tokens.promptIds.length;
		const completion =
			this.usage?.completionTokens ?? Math.max(this.tokens.ids.length, this.tokens.logprobs.length);
		if (prompt + completion === 0) return [];
		const usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
		return [toSse(JSON.stringify({ ...this.#chunk({}), choices: [], usage }))];
	}
}

const SEVERAL_ANSWERS = "the engine sent pieces of several answers";
const TWO_PROMPTS = "the engine named two prompts";
const OTHER_IDS = "the engine sent ids that differ from those beside their logprobs";
const WENT_ON = "the engine went on after its end";
const NO_END = "the engine gave no finish reason";

function isOther(known: string | null, said: string | null): boolean {
	return known !== null && said !== null && said !== known;
}

const ID_FIELDS = ["token_ids", "response_token_ids", "prompt_token_ids", "meta_info"] as const;

/** SGLang's triples (logprob, token id, text). */
function entriesOfMeta(meta: JsonObject): unknown[] {
	return toArray(meta.output_token_logprobs).map((entry) =>
		Array.isArray(entry) ? { logprob: entry[0], token: entry[2] } : {},
	);
}

function idsOfMeta(meta: JsonObject): unknown[] {
	return toArray(meta.output_token_logprobs).map((entry) => (Array.isArray(entry) ? entry[1] : undefined));
}
