import type { Usage } from "../../model/call.ts";
import { UpstreamFault } from "../upstream/fault.ts";
import { emptyStream, faultOfErrorEvent, parseEventData, truncatedStream } from "./event-data.ts";
import { toBearer, toOpenAiError, toOpenAiUsage } from "./openai.ts";
import {
	type EngineAnswer,
	isObject,
	type JsonObject,
	type Protocol,
	type Step,
	toArray,
	toText,
} from "./protocol.ts";
import { responsesShape } from "./responses-shape.ts";
import type { SseEvent } from "./sse.ts";
import { TokenColumns } from "./tokens.ts";

/** OpenAI responses: no engine hands out token ids over it, so its calls can be judged but not trained on. */
export const responses: Protocol = {
	name: "responses",
	path: "/responses",
	shape: responsesShape,
	conversationField: "input",
	carriesTokens: false,
	sampling: ["temperature", "top_p"],
	takesSeed: false,
	lengthField: () => "max_output_tokens",
	toCredentials: toBearer,
	startAnswer: () => new ResponsesAnswer(),
	split({ input, tools, ...params }) {
		const messages = typeof input === "string" ? [{ role: "user", content: input }] : toArray(input);
		return { messages, tools: toArray(tools), params };
	},
	systemOf: (body) => body.instructions,
	toErrorBody: toOpenAiError,
};

const LAST = new Set(["response.completed", "response.incomplete"]);

class ResponsesAnswer implements EngineAnswer {
	readonly tokens = new TokenColumns();
	readonly losses: string[] = [];
	readonly engine = null;
	isEnded = false;
	pieces = 0;
	finishReason: string | null = null;
	usage: Usage | null = null;
	model: string | null = null;
	#text = "";
	#output: JsonObject[] = [];

	/** From the finished output items; a reply that was cut off has the text so far. */
	get message(): JsonObject | null {
		const calls = this.#output.filter((item) => item.type === "function_call");
		const reasoning = this.#output
			.filter((item) => item.type === "reasoning")
			.flatMap((item) => toArray(item.summary));
		return {
			role: "assistant",
			content: this.#text === "" && calls.length > 0 ? null : this.#text,
			...(reasoning.length === 0 ? {} : { reasoning_content: reasoning.map(textOf).join("\n") }),
			...(calls.length === 0 ? {} : { tool_calls: calls.map(toToolCall) }),
		};
	}

	take(event: SseEvent): Step {
		if (event.data === null) return { forward: event.raw, last: false };
		if (event.data === "[DONE]") return { forward: event.raw, last: true };
		const { value } = parseEventData(event.data);
		const type = toText(value.type) ?? event.name;
		if (type === "error" || type === "response.failed")
			throw faultOfErrorEvent(isObject(value.response) ? value.response.error : (value.error ?? value));
		if (type === "response.output_text.delta") this.#addText(toText(value.delta) ?? "");
		if (type === "response.function_call_arguments.delta") this.pieces += 1;
		if (type === "response.output_item.done" && isObject(value.item)) this.#output.push(value.item);
		if (isObject(value.response)) this.model ??= toText(value.response.model);
		if (!LAST.has(type ?? "")) return { forward: event.raw, last: false };
		this.#readWhole(isObject(value.response) ? value.response : {});
		this.isEnded = true;
		return { forward: event.raw, last: true };
	}

	close(): string[] {
		if (this.finishReason !== null) return [];
		throw this.pieces === 0 ? emptyStream() : truncatedStream("before the response was complete");
	}

	takeWhole(body: JsonObject): JsonObject {
		if (isObject(body.error)) throw faultOfErrorEvent(body.error);
		if (!Array.isArray(body.output))
			throw new UpstreamFault("provider_malformed", "the model endpoint's answer holds no output");
		this.#readWhole(body);
		return body;
	}

	#addText(text: string): void {
		this.#text += text;
		this.pieces += 1;
	}

	#readWhole(response: JsonObject): void {
		this.model ??= toText(response.model);
		const output = toArray(response.output).filter(isObject);
		if (output.length > 0) this.#output = output;
		const text = this.#output
			.filter((item) => item.type === "message")
			.flatMap((item) => toArray(item.content));
		if (text.length > 0) this.#text = text.map(textOf).join("");
		this.pieces = Math.max(this.pieces, this.#output.length);
		if (isObject(response.usage)) this.usage = toOpenAiUsage(response.usage, "input", "output");
		else this.losses.push("usage missing");
		const details = isObject(response.incomplete_details) ? toText(response.incomplete_details.reason) : null;
		const hasCalls = this.#output.some((item) => item.type === "function_call");
		if (response.status === "incomplete")
			this.finishReason = details === "max_output_tokens" ? "length" : details;
		this.finishReason ??= hasCalls ? "tool_calls" : "stop";
	}
}

function textOf(part: unknown): string {
	return isObject(part) ? (toText(part.text) ?? toText(part.refusal) ?? "") : "";
}

function toToolCall(item: JsonObject): JsonObject {
	return { id: item.call_id, type: "function", function: { name: item.name, arguments: item.arguments } };
}
