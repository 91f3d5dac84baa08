import { describe, expect, test } from "vitest";
import { type SampleOptions, toSamples } from "../../src/export/samples.ts";
import type { ModelCall } from "../../src/model/call.ts";
import { aCall, NEUTRAL } from "./calls.ts";

const good: Partial<ModelCall> & { index: number } = {
	index: 0,
	promptIds: [1, 2, 3],
	completionIds: [4, 5],
};

async function certificateOf(calls: (Partial<ModelCall> & { index: number })[], options: SampleOptions = {}) {
	return (await toSamples(calls.map(aCall), options)).certificate;
}

test("a rollout that proves everything is trainable", async () => {
	const certificate = await certificateOf([good], { expected: { calls: 1, untrainable: null } });
	expect(certificate).toMatchObject({
		trainable: true,
		reasons: [],
		completeness: { capturedTokens: 2, billedTokens: 2, incompleteCalls: 0, supersededCalls: 0 },
		lengthsEqual: true,
		sentinels: 0,
		engines: ["vllm 0.26.1"],
		models: ["scripted"],
		sampling: [NEUTRAL],
		continuity: { samples: 1, breaks: {} },
	});
});

describe("it fails closed", () => {
	const faulty: [string, Partial<ModelCall>, RegExp, SampleOptions?][] = [
		[
			"no ids",
			{
				completionIds: [],
				completionTexts: [],
				logprobs: [],
				usage: { promptTokens: 3, completionTokens: 2 },
			},
			/handed out no token ids/,
		],
		[
			"no prompt ids",
			{ promptIds: [], usage: { promptTokens: 3, completionTokens: 2 } },
			/no prompt token ids/,
		],
		["an id that is none", { completionIds: [4, -1] }, /not a number of the vocabulary/],
		["no logprobs", { logprobs: [] }, /no logprobs/],
		["unequal lengths", { logprobs: [-1] }, /1 logprobs for 2 tokens/],
		["no usage", { usage: null }, /reported no usage/],
		[
			"fewer tokens than billed",
			{ usage: { promptTokens: 3, completionTokens: 7 } },
			/2 tokens captured, 7 billed/,
		],
		[
			"another prompt than billed",
			{ usage: { promptTokens: 9, completionTokens: 2 } },
			/3 prompt tokens captured, 9 billed/,
		],
		["a marked token", { invalidTokens: [1] }, /1 of 2 tokens have no true logprob \(first at 1\)/],
		["a sentinel", { logprobs: [-1, -9999] }, /1 of 2 tokens have no true logprob/],
		["a logprob that is no number", { logprobs: [Number.NaN, -1] }, /1 of 2 tokens/],
		[
			"raw logprobs under a temperature",
			{ request: { messages: [], tools: [], params: { ...NEUTRAL, temperature: 0.7 }, patch: {} } },
			/temperature 0.7, but its logprobs are of an unknown mode/,
		],
		[
			"raw logprobs under top-p",
			{
				logprobsMode: "raw_logprobs",
				request: { messages: [], tools: [], params: { ...NEUTRAL, top_p: 0.9 }, patch: {} },
			},
			/top_p 0.9, but its logprobs are raw_logprobs/,
		],
		[
			"sampling left to the engine, whose model may come with its own",
			{ request: { messages: [], tools: [], params: { temperature: 1, top_p: 1 }, patch: {} } },
			/top_k, min_p, presence_penalty, frequency_penalty, repetition_penalty left to the engine/,
		],
		[
			"sampling left to the engine, even where the logprobs are processed ones",
			{
				logprobsMode: "processed_logprobs",
				request: { messages: [], tools: [], params: { ...NEUTRAL, top_k: null }, patch: { top_k: null } },
			},
			/top_k left to the engine/,
		],
		[
			"tokens taken greedily",
			{
				logprobsMode: "processed_logprobs",
				request: { messages: [], tools: [], params: { ...NEUTRAL, temperature: 0 }, patch: {} },
			},
			/sampled greedily/,
		],
		[
			"a constraint on what may be sampled",
			{ request: { messages: [], tools: [], params: { ...NEUTRAL, tool_choice: "required" }, patch: {} } },
			/tool_choice kept the engine from some tokens/,
		],
		[
			"calls missing from the log",
			{},
			/the log holds 1 of the rollout's 3 calls/,
			{ expected: { calls: 3 } },
		],
		[
			"a rollout marked untrainable",
			{},
			/^black_box mode/,
			{ expected: { untrainable: "black_box mode captures no tokens" } },
		],
	];

	test.each(faulty)("%s", async (_, fields, reason, options = {}) => {
		const certificate = await certificateOf([{ ...good, ...fields }], options);
		expect(certificate.trainable).toBe(false);
		expect(certificate.reasons.join("\n")).toMatch(reason);
	});

	test("no calls at all", async () => {
		expect((await certificateOf([])).reasons).toEqual(["no call was captured"]);
	});

	test("only a title", async () => {
		const certificate = await certificateOf([{ ...good, purpose: "title" }]);
		expect(certificate.reasons).toEqual(["no call brought a token to train on"]);
	});

	test("two engines, two models, two attempts", async () => {
		const other = {
			index: 1,
			promptIds: [1, 2, 3, 4, 5, 6],
			completionIds: [7],
			engine: "sglang",
			model: "other",
			attempt: 2,
		};
		expect((await certificateOf([good, other])).reasons).toEqual([
			"the trained calls came from 2 engines: vllm 0.26.1, sglang",
			"the trained calls came from 2 models: scripted, other",
			"the log mixes calls of several attempts",
		]);
	});

	test("the same fault of many calls is one sentence", async () => {
		const calls = [0, 1, 2].map((index) => ({ ...good, index, usage: null }));
		expect((await certificateOf(calls)).reasons).toEqual([
			"call 0: the engine reported no usage, so nothing shows that all tokens were captured (and so for 2 more)",
		]);
	});
});

describe("what is no obstacle", () => {
	test("a temperature, when the logprobs are known to include it", async () => {
		const warm = {
			...good,
			request: { messages: [], tools: [], params: { ...NEUTRAL, temperature: 0.7 }, patch: {} },
		};
		expect((await certificateOf([{ ...warm, logprobsMode: "processed_logprobs" }])).trainable).toBe(true);
		expect((await certificateOf([warm], { logprobsMode: "processed_logprobs" })).trainable).toBe(true);
	});

	test("faults of a title call", async () => {
		const title = {
			index: 1,
			purpose: "title",
			usage: null,
			promptIds: [9],
			completionIds: [8],
			logprobs: [],
		} as const;
		expect(
			(await certificateOf([good, { ...title, completionIds: [8], logprobs: [], promptIds: [9] }])).trainable,
		).toBe(true);
	});

	test("weights that changed on the way are noted", async () => {
		const later = { index: 1, promptIds: [1, 2, 3, 4, 5, 6], completionIds: [7], weightVersions: ["2"] };
		const certificate = await certificateOf([{ ...good, weightVersions: ["1"] }, later]);
		expect(certificate).toMatchObject({ trainable: true, weightVersions: ["1", "2"] });
		expect(certificate.notes).toContain("the weights changed on the way: 1, 2");
	});
});
