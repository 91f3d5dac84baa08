import type { ModelCall } from "../model/call.ts";
import type { Content, ContentPart, Step, StepMetrics, ToolCall } from "./atif-schema.ts";
import {
	isEmptyAssistant,
	isMessage,
	isStepLimitNote,
	reasoningOf,
	saysTheSame,
	toolCallsOf,
} from "./breaks.ts";

type Message = Record<string, unknown>;

/** The steps of one session, call by call: one agent step for each inference, tool results on the step that asked. */
export class StepWriter {
	readonly steps: Step[] = [];
	readonly #withPromptIds: boolean;
	/** What the next request is expected to begin with: the last request and its reply. */
	#expected: unknown[] = [];
	#summary: string | null = null;

	constructor(withPromptIds: boolean) {
		this.#withPromptIds = withPromptIds;
	}

	/** The session's history is about to be replaced by this summary. */
	compacted(summary: string): void {
		this.#summary = summary;
	}

	add(call: ModelCall): void {
		const messages = call.request.messages.filter((message) => !isEmptyAssistant(message));
		if (this.#summary !== null && !this.#goesOn(messages)) this.#writeCompaction(messages);
		else this.#writeMessages(messages.slice(this.#expected.length), false);
		this.#push(toAgentStep(call, this.#withPromptIds));
		const seen = messages.filter((message) => !isStepLimitNote(message));
		this.#expected = call.response.message ? [...seen, call.response.message] : seen;
	}

	/** Older messages may come back pruned; only a rewritten history, after a compaction, is told anew. */
	#goesOn(messages: unknown[]): boolean {
		return this.#expected.every((message, index) => saysTheSame(message, messages[index]));
	}

	#writeCompaction(messages: unknown[]): void {
		this.#push({
			source: "system",
			message: "The conversation so far was replaced by a summary.",
			observation: { results: [{ content: this.#summary! }] },
			extra: { context_management: { type: "compaction", boundary: "replace" } },
		});
		this.#summary = null;
		this.#writeMessages(
			messages.filter((message) => !(isMessage(message) && message.role === "system")),
			true,
		);
	}

	/** Context that no call of ours sampled: instructions, tool results, notes, or history carried over. */
	#writeMessages(messages: unknown[], copied: boolean): void {
		const mark = copied ? { is_copied_context: true } : {};
		for (const message of messages.filter(isMessage)) {
			if (message.role === "tool" && this.#observe(message)) continue;
			const content = toContent(message.content);
			if (message.role === "user") this.#push({ source: "user", message: content, ...mark });
			else if (message.role === "assistant")
				this.#push({
					source: "agent",
					message: content,
					...toolCallsField(message),
					...(copied ? mark : { llm_call_count: 0 }),
				});
			else this.#push({ source: "system", message: content, ...mark });
		}
	}

	/** Hangs a tool's result on the step that made the call, and on its copies; false when there is none. */
	#observe(message: Message): boolean {
		const id = message.tool_call_id;
		const asked = this.steps.filter((step) => step.tool_calls?.some((call) => call.tool_call_id === id));
		if (asked.length === 0 || typeof id !== "string") return false;
		for (const step of asked) {
			step.observation ??= { results: [] };
			const { results } = step.observation;
			if (results.every((known) => known.source_call_id !== id))
				results.push({ source_call_id: id, content: toContent(message.content) });
		}
		return true;
	}

	#push(step: Omit<Step, "step_id">): void {
		this.steps.push({ step_id: this.steps.length + 1, ...step });
	}
}

function toAgentStep(call: ModelCall, withPromptIds: boolean): Omit<Step, "step_id"> {
	const message = call.response.message ?? {};
	const reasoning = reasoningOf(message);
	return {
		source: "agent",
		message: toContent(message.content),
		timestamp: new Date(call.startedAt).toISOString(),
		llm_call_count: 1,
		...(call.model !== null && { model_name: call.model }),
		...(reasoning !== "" && { reasoning_content: reasoning }),
		...toolCallsField(message),
		metrics: toMetrics(call, withPromptIds),
		...(!call.complete && { extra: { incomplete: true } }),
	};
}

function toMetrics(call: ModelCall, withPromptIds: boolean): StepMetrics {
	const { usage, completionIds, logprobs } = call;
	const aligned = logprobs.length === completionIds.length && logprobs.every(Number.isFinite);
	return {
		...(usage && { prompt_tokens: usage.promptTokens, completion_tokens: usage.completionTokens }),
		...(usage?.cachedTokens !== undefined && { cached_tokens: usage.cachedTokens }),
		...(withPromptIds && call.promptIds.length > 0 && { prompt_token_ids: call.promptIds }),
		...(completionIds.length > 0 && { completion_token_ids: completionIds }),
		...(completionIds.length > 0 && aligned && { logprobs }),
		extra: {
			call: call.index,
			purpose: call.purpose,
			finish_reason: call.response.finishReason,
			latency_s: (call.lastByteMs ?? 0) / 1000,
			...(call.engine !== null && { engine: call.engine }),
			...(call.weightVersions !== undefined && { weight_versions: call.weightVersions }),
			...(call.invalidTokens.length > 0 && { invalid_tokens: call.invalidTokens }),
		},
	};
}

function toolCallsField(message: Message): { tool_calls?: ToolCall[] } {
	const calls = toolCallsOf(message).map((call, index) => {
		const target = isMessage(call.function) ? call.function : {};
		return {
			tool_call_id: typeof call.id === "string" ? call.id : `call_${index}`,
			function_name: typeof target.name === "string" ? target.name : "",
			arguments: toArguments(target.arguments),
		};
	});
	return calls.length > 0 ? { tool_calls: calls } : {};
}

/** The format wants an object; what is none is kept under one key. */
function toArguments(value: unknown): Record<string, unknown> {
	if (isMessage(value)) return value;
	if (typeof value !== "string" || value === "") return {};
	try {
		const parsed: unknown = JSON.parse(value);
		return isMessage(parsed) ? parsed : { value: parsed };
	} catch {
		return { raw: value };
	}
}

const IMAGE_TYPES = ["image/jpeg", "image/png", "image/gif", "image/webp"];

function toContent(content: unknown): Content {
	if (typeof content === "string") return content;
	if (!Array.isArray(content))
		return content === null || content === undefined ? "" : JSON.stringify(content);
	const parts = content.map(toPart);
	return parts.every((part) => part.type === "text") ? parts.map((part) => part.text).join("") : parts;
}

function toPart(part: unknown): ContentPart {
	if (isMessage(part) && typeof part.text === "string") return { type: "text", text: part.text };
	const url = isMessage(part) && isMessage(part.image_url) ? part.image_url.url : null;
	if (typeof url === "string") {
		const mediaType =
			/^data:([a-z/]+)[;,]/.exec(url)?.[1] ?? `image/${/\.(png|gif|webp)$/.exec(url)?.[1] ?? "jpeg"}`;
		if (IMAGE_TYPES.includes(mediaType))
			return { type: "image", source: { media_type: mediaType, path: url } };
	}
	return { type: "text", text: JSON.stringify(part) ?? "" };
}
