import type { ServerResponse } from "node:http";
import { WARM_UP } from "../../model/warm-up.ts";
import { toSse } from "../protocols/sse.ts";
import type { AgentRequest } from "../relay.ts";

/** Harmless, and the tool that nearly every first turn uses. */
const WARM_UP_CALL = {
	index: 0,
	id: "call_prime",
	type: "function",
	function: { name: "bash", arguments: JSON.stringify({ command: "true", description: "Warm up" }) },
};

/**
 * A short answer of our own, so that an agent can warm up without any model: a tool call where one is asked for, else a word.
 * Nothing is recorded.
 */
export function answerPriming(request: AgentRequest, response: ServerResponse): void {
	const common = {
		id: "chatcmpl-prime",
		created: Math.floor(Date.now() / 1000),
		model: String(request.body.model ?? ""),
	};
	const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
	if (request.body.stream !== true) {
		const message = { role: "assistant", content: "ok" };
		const body = {
			...common,
			object: "chat.completion",
			choices: [{ index: 0, message, finish_reason: "stop" }],
			usage,
		};
		response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
		return;
	}
	const chunk = (choices: object[], extra: object = {}) =>
		toSse(JSON.stringify({ ...common, object: "chat.completion.chunk", choices, ...extra }));
	const [said, reason] = wantsShell(request.body)
		? [{ tool_calls: [WARM_UP_CALL] }, "tool_calls"]
		: [{ content: "ok" }, "stop"];
	const events = [
		chunk([{ index: 0, delta: { role: "assistant", ...said }, finish_reason: null }]),
		chunk([{ index: 0, delta: {}, finish_reason: reason }]),
		chunk([], { usage }),
		toSse("[DONE]"),
	];
	response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" }).end(events.join(""));
}

function wantsShell({ messages }: Record<string, unknown>): boolean {
	const last = Array.isArray(messages) ? messages.at(-1) : undefined;
	return last?.role === "user" && JSON.stringify(last.content ?? "").includes(WARM_UP.shell);
}
