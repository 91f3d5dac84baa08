import { isObject, type JsonObject, toArray, toCount, toText } from "./protocol.ts";

interface ToolCall {
	id: string;
	type: string;
	function: { name: string; arguments: string };
}

/** An assistant message, grown from deltas (a whole message is one delta). */
export class ChatMessage {
	#content = "";
	#reasoning = "";
	#refusal = "";
	readonly #toolCalls: (ToolCall | undefined)[] = [];
	pieces = 0;

	get isEmpty(): boolean {
		return this.#content === "" && this.#reasoning === "" && this.#refusal === "" && !this.hasToolCalls;
	}

	get hasToolCalls(): boolean {
		return this.#toolCalls.length > 0;
	}

	add(delta: JsonObject): void {
		const before = this.#content.length + this.#reasoning.length;
		this.#content += toText(delta.content) ?? "";
		this.#reasoning += toText(delta.reasoning_content) ?? toText(delta.reasoning) ?? "";
		this.#refusal += toText(delta.refusal) ?? "";
		const calls = toArray(delta.tool_calls);
		calls.forEach((call, position) => {
			if (isObject(call)) this.#addToolCall(call, position);
		});
		if (calls.length > 0 || this.#content.length + this.#reasoning.length > before) this.pieces += 1;
	}

	toJson(): JsonObject | null {
		if (this.isEmpty && this.pieces === 0) return { role: "assistant", content: "" };
		const calls = this.#toolCalls.filter((call) => call !== undefined);
		return {
			role: "assistant",
			content: this.#content === "" && calls.length > 0 ? null : this.#content,
			...(this.#reasoning === "" ? {} : { reasoning_content: this.#reasoning }),
			...(this.#refusal === "" ? {} : { refusal: this.#refusal }),
			...(calls.length === 0 ? {} : { tool_calls: calls }),
		};
	}

	#addToolCall(part: JsonObject, position: number): void {
		const index = part.index === undefined ? position : Math.min(toCount(part.index), 1023);
		this.#toolCalls[index] ??= { id: "", type: "function", function: { name: "", arguments: "" } };
		const call = this.#toolCalls[index];
		call.id ||= toText(part.id) ?? "";
		const fn = isObject(part.function) ? part.function : {};
		call.function.name ||= toText(fn.name) ?? "";
		call.function.arguments += toText(fn.arguments) ?? "";
	}
}
