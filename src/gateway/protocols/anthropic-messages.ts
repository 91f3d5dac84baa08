import type { Usage } from "../../model/call.ts";
import { UpstreamFault } from "../upstream/fault.ts";
import { emptyStream, faultOfErrorEvent, parseEventData, truncatedStream } from "./event-data.ts";
import { messagesShape } from "./messages-shape.ts";
import { toBearer } from "./openai.ts";
import {
	type EngineAnswer,
	isObject,
	type JsonObject,
	type Protocol,
	type Step,
	toArray,
	toCount,
	toText,
} from "./protocol.ts";
import type { SseEvent } from "./sse.ts";
import { TokenColumns } from "./tokens.ts";

/** Anthropic messages: no token ids either. */
export const messages: Protocol = {
	name: "messages",
	path: "/messages",
	shape: messagesShape,
	conversationField: "messages",
	carriesTokens: false,
	sampling: ["temperature", "top_p", "top_k"],
	takesSeed: false,
	lengthField: () => "max_tokens",
	/** Anthropic's own API reads x-api-key and mistakes a bearer for something else; engines that imitate it want a bearer. */
	toCredentials(apiKey, hostname) {
		const isAnthropic = hostname.endsWith("anthropic.com");
		return { ...(isAnthropic ? {} : toBearer(apiKey)), "x-api-key": apiKey };
	},
	startAnswer: () => new MessagesAnswer(),
	split({ messages: list, tools, ...params }) {
		return { messages: toArray(list), tools: toArray(tools), params };
	},
	systemOf: (body) => body.system,
	toErrorBody: ({ type, message }) => ({ type: "error", error: { type, message } }),
};

class MessagesAnswer implements EngineAnswer {
	readonly tokens = new TokenColumns();
	readonly losses: string[] = [];
	readonly engine = null;
	isEnded = false;
	pieces = 0;
	finishReason: string | null = null;
	usage: Usage | null = null;
	model: string | null = null;
	readonly #blocks: JsonObject[] = [];
	/** Tool input arrives as pieces of JSON text. */
	readonly #inputs: string[] = [];

	get message(): JsonObject | null {
		const content = this.#blocks.map((block, index) => {
			const text = this.#inputs[index];
			return text === undefined ? block : { ...block, input: parseInput(text) };
		});
		return { role: "assistant", content };
	}

	take(event: SseEvent): Step {
		if (event.data === null) return { forward: event.raw, last: false };
		const { value } = parseEventData(event.data);
		const type = toText(value.type) ?? event.name;
		if (type === "error") throw faultOfErrorEvent(value.error);
		if (type === "message_start" && isObject(value.message)) this.#readStart(value.message);
		if (type === "content_block_start" && isObject(value.content_block))
			this.#blocks[blockIndex(value)] = { ...value.content_block };
		if (type === "content_block_delta" && isObject(value.delta))
			this.#addDelta(blockIndex(value), value.delta);
		if (type === "message_delta") this.#readEnd(value);
		if (type === "message_stop") this.isEnded = true;
		return { forward: event.raw, last: this.finishReason !== null };
	}

	close(): string[] {
		if (this.finishReason !== null)
			return this.isEnded ? [] : ['event: message_stop\ndata: {"type":"message_stop"}\n\n'];
		throw this.pieces === 0 ? emptyStream() : truncatedStream("without a stop reason");
	}

	takeWhole(body: JsonObject): JsonObject {
		if (body.type === "error") throw faultOfErrorEvent(body.error);
		if (!Array.isArray(body.content))
			throw new UpstreamFault("provider_malformed", "the model endpoint's answer holds no content");
		this.#readStart(body);
		this.#blocks.push(...body.content.filter(isObject));
		this.pieces = this.#blocks.length;
		this.finishReason = toText(body.stop_reason) ?? "end_turn";
		return body;
	}

	#readStart(message: JsonObject): void {
		this.model = toText(message.model);
		if (isObject(message.usage)) this.#readUsage(message.usage);
	}

	#readEnd(value: JsonObject): void {
		if (isObject(value.usage)) this.#readUsage(value.usage);
		if (isObject(value.delta)) this.finishReason = toText(value.delta.stop_reason) ?? this.finishReason;
	}

	/** The prompt's numbers come first, the completion's last; cached prompt tokens are billed apart. */
	#readUsage(usage: JsonObject): void {
		const cached = Math.max(toCount(usage.cache_read_input_tokens), this.usage?.cachedTokens ?? 0);
		const prompt = toCount(usage.input_tokens) + cached + toCount(usage.cache_creation_input_tokens);
		this.usage = {
			promptTokens: Math.max(prompt, this.usage?.promptTokens ?? 0),
			completionTokens: Math.max(toCount(usage.output_tokens), this.usage?.completionTokens ?? 0),
			...(cached > 0 ? { cachedTokens: cached } : {}),
		};
	}

	#addDelta(index: number, delta: JsonObject): void {
		this.pieces += 1;
		this.#blocks[index] ??= { type: "text", text: "" };
		const block = this.#blocks[index];
		if (delta.type === "input_json_delta")
			this.#inputs[index] = (this.#inputs[index] ?? "") + (toText(delta.partial_json) ?? "");
		for (const field of ["text", "thinking", "signature"])
			if (typeof delta[field] === "string") block[field] = (toText(block[field]) ?? "") + delta[field];
	}
}

function blockIndex(value: JsonObject): number {
	return Math.min(toCount(value.index), 1023);
}

/** A cut-off call has half a JSON text: kept as text. */
function parseInput(text: string): unknown {
	try {
		return JSON.parse(text === "" ? "{}" : text);
	} catch {
		return text;
	}
}
