import { describe, expect, test } from "vitest";
import { toSamples } from "../../src/export/samples.ts";
import type { ModelCall } from "../../src/model/call.ts";
import { Certificate, Sample } from "../../src/model/sample.ts";
import { randomCalls } from "../store/trace-random.ts";
import { aCall } from "./calls.ts";
import { assistant, type Message, system, ToyEngine, tool, user } from "./toy-engine.ts";

const START = [system("be helpful"), user("fix it")];

/** The sampled tokens of a sample, as the calls gave them. */
const trained = (sample: Sample) => sample.ids.filter((_, position) => sample.mask[position] === 1);
const ones = (samples: Sample[]) => samples.flatMap(trained).length;
const completionOf = (calls: ModelCall[]) => calls.flatMap((call) => call.completionIds);

/** Two turns, the second prompt being `second`; the reason why it broke. */
async function breakOf(
	first: Parameters<ToyEngine["call"]>,
	second: Parameters<ToyEngine["call"]>,
	between?: (engine: ToyEngine) => void,
) {
	const engine = new ToyEngine();
	engine.call(...first);
	between?.(engine);
	engine.call(...second);
	const { samples, certificate } = await toSamples(engine.calls);
	return { engine, samples, certificate, startedBy: samples.at(-1)!.startedBy };
}

describe("a rollout that a person steered", () => {
	const steered = {
		interventions: [
			{ kind: "approval", by: "anna", call: 0 },
			{ kind: "message", by: "anna", call: 1 },
			{ kind: "denial", by: "anna", call: 2 },
		],
	} as const;

	async function samplesOf(interventions: "keep" | "mask" | "drop") {
		const engine = new ToyEngine();
		const one = engine.call(START, assistant("reading file"));
		const two = engine.call(
			[...START, assistant("reading file"), user("think of the tests")],
			assistant("done"),
		);
		return { one, two, ...(await toSamples(engine.calls, { interventions, expected: steered })) };
	}

	test("keeps its calls unless told otherwise, and the certificate says what people did", async () => {
		const { one, two, samples, certificate } = await samplesOf("keep");
		expect(samples.flatMap(trained)).toEqual(completionOf([one, two]));
		expect(certificate).toMatchObject({
			trainable: true,
			interventions: {
				count: 3,
				kinds: { approval: 1, message: 1, denial: 1 },
				firstCall: 1,
				handling: "keep",
			},
		});
		expect(certificate.notes.join()).toContain("people intervened 3 times");
	});

	test("can have what came after masked: still context, no loss", async () => {
		const { one, two, samples, certificate } = await samplesOf("mask");
		expect(samples.flatMap(trained)).toEqual(one.completionIds);
		expect(samples[0]!.ids).toEqual([...two.promptIds, ...two.completionIds]);
		expect(certificate.trainedTokens).toBe(one.completionIds.length);
	});

	test("can have what came after left out", async () => {
		const { one, samples } = await samplesOf("drop");
		expect(samples.map(({ calls }) => calls)).toEqual([[0]]);
		expect(samples[0]!.ids).toEqual([...one.promptIds, ...one.completionIds]);
	});
});

describe("branches", () => {
	test("a linear conversation is one sample whose ones are exactly what was sampled", async () => {
		const engine = new ToyEngine();
		const one = engine.call(START, assistant("reading file"));
		const two = engine.call([...START, assistant("reading file"), tool("contents")], assistant("done"));
		const { samples, certificate } = await toSamples(engine.calls);
		expect(samples).toHaveLength(1);
		const [sample] = samples;
		expect(sample!.ids).toEqual([...two.promptIds, ...two.completionIds]);
		expect(sample!.mask.slice(0, one.promptIds.length)).toEqual(one.promptIds.map(() => 0));
		expect(trained(sample!)).toEqual(completionOf([one, two]));
		expect(sample!.logprobs.filter((_, at) => sample!.mask[at] === 1)).toEqual([
			...one.logprobs,
			...two.logprobs,
		]);
		expect(sample!.logprobs.filter((_, at) => sample!.mask[at] === 0).every((value) => value === 0)).toBe(
			true,
		);
		expect(sample).toMatchObject({
			promptLength: one.promptIds.length,
			calls: [0, 1],
			startedBy: null,
			finishReason: "stop",
		});
		expect(certificate).toMatchObject({ trainable: true, reasons: [], trainedTokens: 5, lengthsEqual: true });
		Sample.parse(sample);
		Certificate.parse(certificate);
	});

	test("a sub-agent is a sample of its own, and the main branch goes on after it", async () => {
		const engine = new ToyEngine();
		const one = engine.call(START, assistant("delegate"));
		const sub = engine.call([system("you explore"), user("look")], assistant("found it"), {
			purpose: "subagent",
			sessionId: "ses_sub",
			parentSessionId: "ses_main",
		});
		const two = engine.call([...START, assistant("delegate"), tool("found it")], assistant("done"));
		const { samples } = await toSamples(engine.calls);
		const main = samples.find((sample) => sample.purpose === "main")!;
		const child = samples.find((sample) => sample.purpose === "subagent")!;
		expect(samples).toHaveLength(2);
		expect(trained(main)).toEqual(completionOf([one, two]));
		expect(trained(child)).toEqual(sub.completionIds);
		expect(child).toMatchObject({ sessionId: "ses_sub", parentSessionId: "ses_main", startedBy: null });
	});

	test("title tokens appear in no sample, even when asked for", async () => {
		const engine = new ToyEngine();
		engine.call([system("You are a title generator"), user("t")], assistant("A fine title"), {
			purpose: "title",
			tools: [],
		});
		engine.call(START, assistant("done"));
		const { samples, certificate } = await toSamples(engine.calls, { purposes: ["main", "title"] });
		expect(samples.flatMap((sample) => sample.ids)).not.toContain(engine.id("fine"));
		expect(certificate.calls).toEqual({ main: 1, subagent: 0, title: 1, compaction: 0 });
	});

	test("compaction starts a new branch; the summary is trained only when asked for", async () => {
		const engine = new ToyEngine();
		const one = engine.call(START, assistant("long work"));
		const summary = engine.call([system("summarise"), user("all of it")], assistant("short story"), {
			purpose: "compaction",
			tools: [],
		});
		const two = engine.call(
			[START[0]!, user("what did we do"), assistant("short story"), user("go on")],
			assistant("done"),
		);
		const off = await toSamples(engine.calls);
		expect(off.samples.map(trained)).toEqual([one.completionIds, two.completionIds]);
		expect(off.samples[1]!.startedBy).toMatchObject({ reason: "compaction", call: 2, previousCall: 0 });
		const on = await toSamples(engine.calls, { purposes: ["main", "subagent", "compaction"] });
		expect(on.samples.map(trained)).toContainEqual(summary.completionIds);
		expect(ones(on.samples)).toBe(completionOf(engine.calls).length);
	});

	test("the same prompt answered twice gives two samples; the shared turn is trained in the first only", async () => {
		const engine = new ToyEngine();
		const history = [...START, assistant("step"), tool("ok")];
		engine.call(START, assistant("step"));
		engine.call(history, assistant("left"));
		const right = engine.call(history, assistant("right way"));
		const { samples } = await toSamples(engine.calls);
		expect(samples).toHaveLength(2);
		expect(trained(samples[1]!)).toEqual(right.completionIds);
		expect(samples[1]!.startedBy).toMatchObject({ reason: "resampled", position: right.promptIds.length });
		expect(ones(samples)).toBe(completionOf(engine.calls).length);
	});

	test("a path without a sampled token is no sample", async () => {
		const { samples } = await toSamples([aCall({ index: 0, promptIds: [1, 2], completionIds: [] })]);
		expect(samples).toEqual([]);
	});

	test("more branches than can be open still train each token once", async () => {
		const engine = new ToyEngine();
		const sessions = Array.from({ length: 40 }, (_, at) => `ses_${at}`);
		for (const turn of [0, 1]) {
			for (const sessionId of sessions) {
				const begin: Message[] = [system(sessionId), user("go")];
				engine.call(
					turn === 0 ? begin : [...begin, assistant("one"), tool("ok")],
					assistant(turn === 0 ? "one" : "two"),
					{ sessionId },
				);
			}
		}
		const { samples, certificate } = await toSamples(engine.calls);
		expect(ones(samples)).toBe(completionOf(engine.calls).length);
		expect(certificate.trainedTokens).toBe(ones(samples));
	});

	test.each(Array.from({ length: 20 }, (_, seed) => seed))(
		"random calls keep the rules, seed %i",
		async (seed) => {
			const calls = randomCalls(seed);
			const { samples, certificate } = await toSamples(calls);
			for (const sample of samples) {
				expect(sample.mask).toHaveLength(sample.ids.length);
				expect(sample.logprobs).toHaveLength(sample.ids.length);
				expect(sample.mask.slice(0, sample.promptLength)).not.toContain(1);
				const last = calls[sample.calls.at(-1)!]!;
				expect(sample.ids).toEqual([...last.promptIds, ...last.completionIds]);
			}
			expect(ones(samples)).toBe(certificate.trainedTokens);
			const trainable = calls.filter(
				(call) => call.complete && call.promptIds.length > 0 && ["main", "subagent"].includes(call.purpose),
			);
			const tokens = trainable.filter((call) => call.logprobs.length === call.completionIds.length);
			expect(ones(samples)).toBe(
				completionOf(tokens).length -
					tokens.flatMap((call) => (call.completionIds.length > 0 ? call.invalidTokens : [])).length,
			);
			expect(certificate.completeness.capturedTokens).toBe(completionOf(calls).length);
		},
	);
});

describe("why branches break", () => {
	const call1: Parameters<ToyEngine["call"]> = [
		START,
		assistant("un believable"),
		{ sampled: ["un", "believable"] },
	];

	test("retokenised: the same text came back as other tokens", async () => {
		const { startedBy, engine, samples } = await breakOf(
			[START, assistant("unbelievable"), { sampled: ["un", "believable"] }],
			[[...START, assistant("unbelievable"), tool("ok")], assistant("done")],
		);
		expect(startedBy).toEqual({
			reason: "retokenised",
			position: engine.calls[0]!.promptIds.length,
			call: 1,
			previousCall: 0,
		});
		expect(ones(samples)).toBe(completionOf(engine.calls).length);
	});

	test("reserialised_tool_call: arguments came back with other spacing", async () => {
		const spelled = (text: string) =>
			assistant("", {
				tool_calls: [{ id: "c1", type: "function", function: { name: "bash", arguments: text } }],
			});
		const { startedBy } = await breakOf(
			[START, spelled('{"a":1,"b":2}')],
			[[...START, spelled('{ "b":2, "a":1 }'), tool("ok")], assistant("done")],
		);
		expect(startedBy?.reason).toBe("reserialised_tool_call");
	});

	test("retokenised: what differs stands before the tool call, whatever became of its arguments", async () => {
		const spelled = (text: string) =>
			assistant("looking around", {
				tool_calls: [{ id: "c1", type: "function", function: { name: "bash", arguments: text } }],
			});
		const [first, again] = [spelled('{"a":1,"b":2}'), spelled('{ "b":2, "a":1 }')];
		const sampled = ["looking", "around", "\n\n", JSON.stringify(first.tool_calls)];
		const { startedBy, certificate } = await breakOf(
			[START, first, { sampled }],
			[[...START, again, tool("ok")], assistant("done")],
		);
		expect(startedBy?.reason).toBe("retokenised");
		// One of two turns is in no trainer's hands that takes a single row.
		expect(certificate).toMatchObject({ trainedTokens: 7, mainShare: 5 / 7 });
		expect(certificate.notes).toContain("the main sample has 5 of the 7 tokens that can be trained on");
	});

	test("dropped_reasoning: the agent did not send the thinking back", async () => {
		const { startedBy, engine } = await breakOf(
			[START, assistant("yes", { reasoning_content: "hmm well" })],
			[[...START, assistant("yes"), tool("ok")], assistant("done")],
		);
		expect(startedBy).toMatchObject({
			reason: "dropped_reasoning",
			position: engine.calls[0]!.promptIds.length,
		});
	});

	test("dropped_reasoning: the agent sent it back, the template left it out", async () => {
		const said = assistant("yes", { reasoning_content: "hmm well" });
		const engine = new ToyEngine();
		const one = engine.call(START, said);
		engine.call([...START, said, user("more")], assistant("done"), {
			promptIds: [...one.promptIds, engine.id("yes"), 5, 2, 77, 5, 3],
		});
		const { samples } = await toSamples(engine.calls);
		expect(samples[1]!.startedBy).toMatchObject({
			reason: "dropped_reasoning",
			position: one.promptIds.length,
		});
	});

	test("step_limit_note: the note stood in the last prompt and is gone from this one", async () => {
		const note = assistant("CRITICAL - MAXIMUM STEPS REACHED no more tools");
		const { startedBy, samples } = await breakOf(
			[[...START, note], assistant("summary")],
			[[...START, assistant("summary"), user("next")], assistant("done")],
		);
		expect(startedBy).toMatchObject({ reason: "step_limit_note", call: 1, previousCall: 0 });
		expect(trained(samples[0]!)).toHaveLength(2);
	});

	test("the step-limit note itself is context, never trained", async () => {
		const engine = new ToyEngine();
		const note = assistant("CRITICAL - MAXIMUM STEPS REACHED");
		engine.call(START, assistant("step"));
		engine.call([...START, assistant("step"), tool("ok"), note], assistant("summary"));
		const { samples } = await toSamples(engine.calls);
		expect(samples).toHaveLength(1);
		expect(trained(samples[0]!)).toEqual(completionOf(engine.calls));
	});

	test("retry_leftover: an empty assistant message slipped in before the real one", async () => {
		const { startedBy, engine } = await breakOf(call1, [
			[...START, assistant(""), assistant("un believable"), tool("ok")],
			assistant("done"),
		]);
		expect(startedBy).toMatchObject({
			reason: "retry_leftover",
			position: engine.calls[0]!.promptIds.length,
		});
	});

	test("tools_changed", async () => {
		const changed = [{ name: "bash" }, { name: "edit" }];
		const history = [...START, assistant("un believable"), tool("ok")];
		const { startedBy } = await breakOf(call1, [
			history,
			assistant("done"),
			{ tools: changed, promptIds: [9, 9, 9] },
		]);
		expect(startedBy).toMatchObject({ reason: "tools_changed", position: 0 });
	});

	test("system_changed: the date in the system prompt turned over", async () => {
		const { startedBy } = await breakOf(call1, [
			[system("be quick"), START[1]!, assistant("un believable"), tool("ok")],
			assistant("done"),
		]);
		expect(startedBy).toMatchObject({ reason: "system_changed", position: 2 });
	});

	test("history_changed: an old tool result was cleared", async () => {
		const { startedBy } = await breakOf(
			[[...START, assistant("a"), tool("long output")], assistant("b")],
			[[...START, assistant("a"), tool("cleared"), assistant("b"), tool("ok")], assistant("done")],
		);
		expect(startedBy?.reason).toBe("history_changed");
	});
});

describe("retries", () => {
	const cutOff: Partial<ModelCall> = {
		complete: false,
		usage: null,
		response: { message: null, finishReason: null },
	};

	test("a superseded call is not trained, and its retry goes on with the branch", async () => {
		const engine = new ToyEngine();
		const one = engine.call(START, assistant("step"));
		const history = [...START, assistant("step"), tool("ok")];
		engine.call(history, assistant("half of"), cutOff);
		const two = engine.call(history, assistant("all of it"), { retryOf: 1 });
		for (const superseded of [false, true]) {
			engine.calls[1]!.superseded = superseded;
			const { samples, certificate } = await toSamples(engine.calls);
			expect(samples.map(trained)).toEqual([completionOf([one, two])]);
			expect(certificate.trainable).toBe(true);
			expect(certificate.completeness).toMatchObject({ incompleteCalls: 1, supersededCalls: 1 });
		}
	});

	test("a call cut off at the very end is left out and noted", async () => {
		const engine = new ToyEngine();
		const one = engine.call(START, assistant("step"));
		engine.call([...START, assistant("step"), tool("ok")], assistant("half"), cutOff);
		const { samples, certificate } = await toSamples(engine.calls);
		expect(samples.map(trained)).toEqual([one.completionIds]);
		expect(certificate.trainable).toBe(true);
		expect(certificate.notes).toContain("call 1 was cut off at the end; its tokens are left out");
	});

	test("going on after a cut-off call without a retry makes the rollout untrainable", async () => {
		const engine = new ToyEngine();
		engine.call(START, assistant("half"), cutOff);
		engine.call([...START, user("go on")], assistant("done"));
		const { certificate } = await toSamples(engine.calls);
		expect(certificate.reasons).toEqual(["call 0 was cut off, and the agent went on without repeating it"]);
	});
});
