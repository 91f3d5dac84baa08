import { DIALECTS } from "../engines/dialect.ts";
import type { PatchInput } from "../patch.ts";
import type { RequestDraft } from "../request-draft.ts";
import { isObject, type JsonObject, toArray } from "./protocol.ts";

/** The model may call a tool, or may not; it is not made to. */
const FREE_CHOICES: ReadonlySet<unknown> = new Set(["auto", "none", undefined]);

/** What an engine is told over chat completions so that it hands out tokens, and takes what the agent wrote. */
export function patchChat(draft: RequestDraft, input: PatchInput, engineStreams: boolean): void {
	const dialect = DIALECTS[input.dialect];
	if (toArray(input.body.tools).length === 0) draft.remove("tool_choice");
	if (engineStreams) {
		if (!asksForUsage(input.body)) draft.set("stream_options", { include_usage: true });
	} else {
		if (input.body.stream === true) draft.set("stream", false);
		draft.remove("stream_options");
	}
	if (input.captures && dialect.logprobs) {
		draft.set("logprobs", true);
		draft.set("top_logprobs", input.sampling.topLogprobs);
		// What keeps the engine from some tokens makes all of a rollout untrainable, and one call of the agent's own would be enough.
		draft.remove("response_format");
		if (!FREE_CHOICES.has(input.body.tool_choice)) draft.remove("tool_choice");
	}
	if (draft.body.logprobs !== true) draft.remove("top_logprobs");
	if (input.captures) for (const [field, value] of Object.entries(dialect.flags)) draft.set(field, value);
	if (dialect.templates && (input.sampling.disableThinking ?? input.endpoint.disableThinking))
		draft.set("chat_template_kwargs", { enable_thinking: false });
	if (dialect.replaysReasoning) mirrorReasoning(draft);
}

export function asksForUsage(body: JsonObject): boolean {
	return isObject(body.stream_options) && body.stream_options.include_usage === true;
}

/** Agents replay thinking under one name, engines read it under another: say it under both. */
function mirrorReasoning(draft: RequestDraft): void {
	let mirrored = 0;
	const messages = toArray(draft.body.messages).map((message) => {
		if (!isObject(message) || message.role !== "assistant") return message;
		const text = message.reasoning_content ?? message.reasoning;
		if (typeof text !== "string" || message.reasoning === message.reasoning_content) return message;
		mirrored += 1;
		return { ...message, reasoning: text, reasoning_content: text };
	});
	if (mirrored === 0) return;
	draft.body.messages = messages;
	draft.patch["messages[].reasoning"] = `mirrored on ${mirrored} assistant messages`;
}
