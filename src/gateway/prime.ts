import type { ServerResponse } from "node:http";
import type { AgentRequest } from "./relay.ts";
import { toSse } from "./sse.ts";

/** A one-token answer of our own, so that an agent can warm up without any model. Nothing is recorded. */
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
	const events = [
		chunk([{ index: 0, delta: { role: "assistant", content: "ok" }, finish_reason: null }]),
		chunk([{ index: 0, delta: {}, finish_reason: "stop" }]),
		chunk([], { usage }),
		toSse("[DONE]"),
	];
	response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" }).end(events.join(""));
}
