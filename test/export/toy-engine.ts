import type { ModelCall, Purpose } from "../../src/model/call.ts";
import { aCall, NEUTRAL } from "./calls.ts";

export type Message = Record<string, unknown>;

const MARKS: Record<string, number> = { system: 1, user: 2, assistant: 3, tool: 4 };
const END = 5;

/** Words become tokens by a fixed rule, so that every prompt and every mask can be worked out by hand. */
export class ToyEngine {
	readonly #vocabulary = new Map<string, number>();
	readonly calls: ModelCall[] = [];

	id(word: string): number {
		const known = this.#vocabulary.get(word) ?? this.#vocabulary.size + 10;
		this.#vocabulary.set(word, known);
		return known;
	}

	/** The chat template: mark, reasoning, words, end; then the mark of the one who is to speak. */
	render(messages: Message[]): number[] {
		return [...messages.flatMap((message) => [MARKS[String(message.role)]!, ...this.spoken(message)]), 3];
	}

	spoken(message: Message): number[] {
		const reasoning = message.reasoning_content ? `<think> ${message.reasoning_content} </think> ` : "";
		const tools = JSON.stringify(message.tool_calls) ?? "";
		const words = `${reasoning}${message.content ?? ""} ${tools}`.split(" ").filter((word) => word !== "");
		return [...words.map((word) => this.id(word)), END];
	}

	/** Answers `messages` with `reply`; `sampled` when the engine spelled it with other tokens than the template does. */
	call(
		messages: Message[],
		reply: Message,
		fields: Partial<ModelCall> & { purpose?: Purpose; tools?: unknown[]; sampled?: string[] } = {},
	): ModelCall {
		const { tools = [{ name: "bash" }], sampled, ...rest } = fields;
		const completionIds = sampled ? [...sampled.map((word) => this.id(word)), END] : this.spoken(reply);
		const words = [...this.#vocabulary];
		const call = aCall({
			index: this.calls.length,
			request: { messages, tools, params: { ...NEUTRAL }, patch: {} },
			response: { message: reply, finishReason: "stop" },
			promptIds: this.render(messages),
			completionIds,
			completionTexts: completionIds.map((id) => `${words.find(([, known]) => known === id)?.[0] ?? ""} `),
			...rest,
		});
		this.calls.push(call);
		return call;
	}
}

export const system = (content: string): Message => ({ role: "system", content });
export const user = (content: string): Message => ({ role: "user", content });
export const tool = (content: string): Message => ({ role: "tool", tool_call_id: "c1", content });
export const assistant = (content: string, more: Message = {}): Message => ({
	role: "assistant",
	content,
	...more,
});
