import { expect, test } from "vitest";
import { type PatchInput, patchRequest } from "../../src/gateway/patch.ts";
import { messages } from "../../src/gateway/protocols/anthropic-messages.ts";
import { chat } from "../../src/gateway/protocols/openai-chat.ts";
import { responses } from "../../src/gateway/protocols/openai-responses.ts";
import { Sampling } from "../../src/model/request.ts";
import { NEUTRAL } from "../export/calls.ts";
import { CHAT } from "./station.ts";

const ENDPOINT = {
	name: "e",
	baseUrl: "http://engine/v1",
	model: "real",
	dialect: "vllm",
	disableThinking: false,
} as const;

function patch(changes: Partial<PatchInput> = {}) {
	return patchRequest({
		protocol: chat,
		body: CHAT,
		endpoint: ENDPOINT,
		sampling: Sampling.parse({}),
		dialect: "vllm",
		refused: new Set(),
		wantsMaxCompletionTokens: false,
		captures: true,
		outputTokensLeft: null,
		...changes,
	});
}

test("the agent's own request is left as it was", () => {
	const before = structuredClone(CHAT);
	patch();
	expect(CHAT).toEqual(before);
});

test("every change is on the record, and applying the record to the request gives what was sent", () => {
	const { body, patch: changes } = patch({
		sampling: Sampling.parse({ temperature: 0.7, seed: 3, topLogprobs: 5 }),
	});
	const rebuilt: Record<string, unknown> = { ...CHAT };
	for (const [field, value] of Object.entries(changes)) {
		if (value === null) delete rebuilt[field];
		else rebuilt[field] = value;
	}
	expect(rebuilt).toEqual(body);
	expect(changes).toMatchObject({ temperature: 0.7, seed: 3, top_logprobs: 5, model: "real" });
});

test.each([
	[
		"vllm",
		{ logprobs: true, top_logprobs: 0, return_token_ids: true, include_reasoning: true, stream: true },
	],
	[
		"sglang",
		{ logprobs: true, top_logprobs: 0, return_token_ids: true, return_meta_info: true, stream: false },
	],
	["openai", { logprobs: true, top_logprobs: 0, stream: true }],
	["hf_router", { logprobs: true, top_logprobs: 0, stream: true }],
	["plain", { stream: true }],
] as const)("%s is sent its own flags and nobody else's", (dialect, expected) => {
	const { body } = patch({ dialect });
	const FLAGS = [
		"logprobs",
		"top_logprobs",
		"return_token_ids",
		"return_meta_info",
		"include_reasoning",
		"stream",
	];
	expect(Object.fromEntries(FLAGS.filter((flag) => flag in body).map((flag) => [flag, body[flag]]))).toEqual(
		expected,
	);
});

test.each(["vllm", "sglang"] as const)("%s is told all that decides what is sampled, neutral", (dialect) => {
	expect(patch({ dialect }).patch).toMatchObject(NEUTRAL);
	const sampling = Sampling.parse({ temperature: 0.6, topK: 20, repetitionPenalty: 1.05 });
	expect(patch({ dialect, sampling }).patch).toMatchObject({
		...NEUTRAL,
		temperature: 0.6,
		top_k: 20,
		repetition_penalty: 1.05,
	});
});

test("an engine that hands out no ids is sent the sampling that was asked for, and no more", () => {
	const sampling = Sampling.parse({ temperature: 0.6 });
	for (const dialect of ["openai", "hf_router", "plain"] as const) {
		const { body } = patch({ dialect, sampling });
		expect(Object.keys(NEUTRAL).filter((name) => name in body)).toEqual(["temperature"]);
	}
});

test.each([
	["chat", chat, NEUTRAL],
	["responses", responses, {}],
	["messages", messages, {}],
] as const)("an agent has no say in what is sampled (%s)", (_name, protocol, expected) => {
	const wishes = { temperature: 0.2, top_p: 0.5, top_k: 3, min_p: 0.1, seed: 4 };
	const { body, patch: changes } = patch({ protocol, body: { ...CHAT, ...wishes } });
	for (const name of Object.keys(wishes))
		expect(body[name]).toBe((expected as Record<string, unknown>)[name]);
	expect(changes).toMatchObject({ seed: null });
});

test("nothing is asked of the engine for a rollout whose calls are not kept", () => {
	expect(patch({ captures: false }).patch).toEqual({ model: "real", max_tokens: 4096, ...NEUTRAL });
	expect(patch({ captures: false, dialect: "sglang" }).body.stream).toBe(true);
});

test("fields that the endpoint refused before are not sent again", () => {
	const { body } = patch({ refused: new Set(["return_token_ids", "logprobs"]) });
	expect(body).not.toHaveProperty("return_token_ids");
	expect(body).not.toHaveProperty("logprobs");
	expect(body).not.toHaveProperty("top_logprobs");
});

test.each([
	["capped", { maxTokensCap: 100 }, null, 100, false],
	["left alone below the cap", { maxTokensCap: 10_000 }, null, 8192, false],
	["left alone without a cap", { maxTokensCap: 0 }, null, 8192, false],
	["cut to what is left of the budget", { maxTokensCap: 100 }, 7, 7, true],
] as const)("max_tokens is %s", (_what, sampling, outputTokensLeft, expected, clipped) => {
	const patched = patch({ sampling: Sampling.parse(sampling), outputTokensLeft });
	expect(patched.body.max_tokens).toBe(expected);
	expect(patched.clippedByBudget).toBe(clipped);
});

test("a model that demands max_completion_tokens gets it, and max_tokens not", () => {
	const { body, patch: changes } = patch({ wantsMaxCompletionTokens: true });
	expect(body).toMatchObject({ max_completion_tokens: 4096 });
	expect(changes).toMatchObject({ max_tokens: null, max_completion_tokens: 4096 });
});

test("the responses and messages protocols keep their own names for the limit, and get no token flags", () => {
	const fromResponses = patch({
		protocol: responses,
		body: { model: "m", input: "hi", max_output_tokens: 9000 },
	});
	expect(fromResponses.body).toEqual({ model: "real", input: "hi", max_output_tokens: 4096 });
	const fromMessages = patch({ protocol: messages, body: { model: "m", messages: [], max_tokens: 9000 } });
	expect(fromMessages.body).toEqual({ model: "real", messages: [], max_tokens: 4096 });
});

test("thinking is switched off by the rollout, or by its endpoint unless the rollout says otherwise", () => {
	const off = { enable_thinking: false };
	expect(patch({ sampling: Sampling.parse({ disableThinking: true }) }).body.chat_template_kwargs).toEqual(
		off,
	);
	const endpoint = { ...ENDPOINT, disableThinking: true };
	expect(patch({ endpoint }).body.chat_template_kwargs).toEqual(off);
	expect(patch({ endpoint, sampling: Sampling.parse({ disableThinking: false }) }).body).not.toHaveProperty(
		"chat_template_kwargs",
	);
});

test("tool_choice without tools is dropped, since engines refuse it", () => {
	const { tools: _tools, ...body } = CHAT;
	expect(patch({ body }).patch).toMatchObject({ tool_choice: null });
	expect(patch().body.tool_choice).toBe("auto");
});

test("nothing in a call keeps an engine from tokens that are to be trained on", () => {
	const forced = { type: "function", function: { name: "bash" } };
	for (const tool_choice of ["required", forced]) {
		const body = { ...CHAT, tool_choice, response_format: { type: "json_object" } };
		expect(patch({ body }).patch).toMatchObject({ tool_choice: null, response_format: null });
		expect(patch({ body, captures: false }).body).toMatchObject({ tool_choice, response_format: {} });
	}
	expect(patch().patch).not.toHaveProperty("tool_choice");
});

test("replayed thinking is said under both names for an engine that may read only one", () => {
	const assistant = { role: "assistant", content: "ok", reasoning_content: "hmm" };
	const body = { ...CHAT, messages: [{ role: "user", content: "x" }, assistant] };
	expect(patch({ body }).body.messages).toEqual([
		{ role: "user", content: "x" },
		{ ...assistant, reasoning: "hmm" },
	]);
	expect(patch({ body, dialect: "openai" }).body.messages).toEqual(body.messages);
});
