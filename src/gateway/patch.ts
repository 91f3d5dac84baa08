import type { Endpoint } from "../model/endpoint.ts";
import type { Sampling } from "../model/request.ts";
import { DIALECTS, type KnownDialect } from "./engines/dialect.ts";
import {
	type Hidden,
	isObject,
	type JsonObject,
	type Protocol,
	toArray,
	toCount,
} from "./protocols/protocol.ts";

export interface PatchInput {
	protocol: Protocol;
	/** As the agent sent it; left alone. */
	body: JsonObject;
	endpoint: Endpoint;
	sampling: Sampling;
	dialect: KnownDialect;
	/** Fields this endpoint refused before. */
	refused: ReadonlySet<string>;
	/** The model takes max_completion_tokens only. */
	wantsMaxCompletionTokens: boolean;
	/** False when nothing is kept: then no token flags are sent. */
	captures: boolean;
	/** What is left of the output budget. */
	outputTokensLeft: number | null;
}

export interface Patched {
	body: JsonObject;
	/** What changed, by field; null means removed. Recorded on the call. */
	patch: JsonObject;
	hidden: Hidden;
	/** The agent asked for a stream; the engine may be asked differently. */
	agentStreams: boolean;
	engineStreams: boolean;
	/** max_tokens was lowered below the sampling cap by what is left of the budget. */
	clippedByBudget: boolean;
}

/** The one place where a request is changed on its way to the engine. */
export function patchRequest(input: PatchInput): Patched {
	const draft = new Draft(input.body, input.refused);
	const agentStreams = input.body.stream === true;
	draft.set("model", input.endpoint.model);
	setSampling(draft, input);
	const clippedByBudget = capTokens(draft, input);
	const isChat = input.protocol.name === "chat";
	const engineStreams = agentStreams && !(isChat && input.captures && !DIALECTS[input.dialect].streams);
	if (isChat) patchChat(draft, input, engineStreams);
	return {
		body: draft.body,
		patch: draft.patch,
		hidden: {
			logprobs: input.body.logprobs !== true,
			ids: input.body.return_token_ids !== true,
			usage:
				agentStreams &&
				!(isObject(input.body.stream_options) && input.body.stream_options.include_usage === true),
		},
		agentStreams,
		engineStreams,
		clippedByBudget,
	};
}

function patchChat(draft: Draft, input: PatchInput, engineStreams: boolean): void {
	const dialect = DIALECTS[input.dialect];
	if (toCount(input.body.n) > 1) draft.remove("n");
	if (toArray(input.body.tools).length === 0) draft.remove("tool_choice");
	if (engineStreams) {
		const options = isObject(input.body.stream_options) ? input.body.stream_options : {};
		if (options.include_usage !== true) draft.set("stream_options", { ...options, include_usage: true });
	} else {
		if (input.body.stream === true) draft.set("stream", false);
		draft.remove("stream_options");
	}
	if (input.captures && dialect.logprobs) {
		draft.set("logprobs", true);
		draft.set("top_logprobs", Math.max(input.sampling.topLogprobs, toCount(input.body.top_logprobs)));
	}
	if (draft.body.logprobs !== true) draft.remove("top_logprobs");
	if (input.captures) for (const [field, value] of Object.entries(dialect.flags)) draft.set(field, value);
	if (dialect.templates && (input.sampling.disableThinking ?? input.endpoint.disableThinking)) {
		const kwargs = isObject(input.body.chat_template_kwargs) ? input.body.chat_template_kwargs : {};
		draft.set("chat_template_kwargs", { ...kwargs, enable_thinking: false });
	}
	if (dialect.replaysReasoning) mirrorReasoning(draft);
}

function setSampling(draft: Draft, { sampling, protocol }: PatchInput): void {
	if (sampling.temperature !== undefined) draft.set("temperature", sampling.temperature);
	if (sampling.topP !== undefined) draft.set("top_p", sampling.topP);
	if (sampling.seed !== undefined && protocol.name === "chat") draft.set("seed", sampling.seed);
}

/** True when the budget, not the sampling cap, set the limit. */
function capTokens(draft: Draft, input: PatchInput): boolean {
	const { body, sampling, outputTokensLeft } = input;
	const field = tokenField(input);
	const asked = Number(body.max_tokens ?? body.max_completion_tokens ?? body.max_output_tokens ?? Number.NaN);
	const wanted = asked > 0 ? asked : Number.POSITIVE_INFINITY;
	const capped = sampling.maxTokensCap > 0 ? Math.min(wanted, sampling.maxTokensCap) : wanted;
	const limit = outputTokensLeft === null ? capped : Math.min(capped, Math.max(1, outputTokensLeft));
	for (const name of ["max_tokens", "max_completion_tokens", "max_output_tokens"])
		if (name !== field) draft.remove(name);
	if (Number.isFinite(limit)) draft.set(field, limit);
	return limit < capped;
}

function tokenField({ protocol, wantsMaxCompletionTokens }: PatchInput): string {
	if (protocol.name === "responses") return "max_output_tokens";
	return protocol.name === "chat" && wantsMaxCompletionTokens ? "max_completion_tokens" : "max_tokens";
}

/** Agents replay thinking under one name, engines read it under another: say it under both. */
function mirrorReasoning(draft: Draft): void {
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

/** A shallow copy of the body that remembers what was done to it. */
class Draft {
	readonly body: JsonObject;
	readonly patch: JsonObject = {};
	readonly #refused: ReadonlySet<string>;

	constructor(body: JsonObject, refused: ReadonlySet<string>) {
		this.body = { ...body };
		this.#refused = refused;
		for (const field of refused) this.remove(field);
	}

	set(field: string, value: unknown): void {
		if (this.#refused.has(field) || this.body[field] === value) return;
		this.body[field] = value;
		this.patch[field] = value;
	}

	remove(field: string): void {
		if (this.body[field] === undefined) return;
		delete this.body[field];
		this.patch[field] = null;
	}
}
