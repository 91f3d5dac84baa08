import { afterEach, beforeEach, expect, test } from "vitest";
import { toSamples } from "../../src/export/samples.ts";
import { examineEndpoint } from "../../src/gateway/engines/examine.ts";
import { FIRST_CALL } from "../../src/model/call.ts";
import type { Message, TemplateEngine } from "../fakes/template-engine.ts";
import { toIds } from "../fakes/template-engine.ts";
import {
	ASK,
	call,
	done,
	expectChains,
	kept,
	oddCall,
	openStitching,
	result,
	SYSTEM,
	samplesOf,
} from "./stitching.ts";

/* What an agent does besides going on: titles, helpers, summaries, notes, requests repeated, prompts too long. */

const NOT_DELIVERED = "the history is not one that was delivered";

let station: Awaited<ReturnType<typeof openStitching>>;
let engine: TemplateEngine;
beforeEach(async () => {
	station = await openStitching();
	engine = station.engine;
});
afterEach(() => station[Symbol.asyncDispose]());

test("a title call beside the first turn takes no part", async () => {
	await using agent = station.openAgent();
	const title = { raw: "A title<|im_end|>", message: { role: "assistant", content: "A title" } };
	engine.next = [title, oddCall("c1"), done];
	const release = hold();
	const titled = agent.send([{ role: "user", content: "Title?" }], { tools: [] }, { agent: "title" });
	await expect.poll(() => engine.requests).toHaveLength(1);
	const first = agent.send([SYSTEM, ASK], {}, { agent: "build" });
	await expect.poll(() => engine.requests).toHaveLength(2);
	release();
	const [, reply] = await Promise.all([titled, first]);
	await agent.send([SYSTEM, ASK, kept(reply), result("c1")], {}, { agent: "build" });
	const byIndex = agent.calls.toSorted((one, other) => one.index - other.index);
	expect(byIndex.map((each) => each.continuity)).toEqual([
		undefined,
		{ stitched: false, why: FIRST_CALL },
		expect.objectContaining({ stitched: true, parent: 1 }),
	]);
	expect(samplesOf(agent.calls)).toHaveLength(1);
});

test("a sub-agent's session between two turns has a chain of its own, and the main one goes on behind it", async () => {
	await using agent = station.openAgent();
	const helper = { session: "ses_2", parent: "ses_1", agent: "general" };
	engine.next = [oddCall("c1"), oddCall("h1"), done, oddCall("c2"), done];
	const first = await agent.send([SYSTEM, ASK]);
	const asked: Message = { role: "user", content: "Look around." };
	const helped = await agent.send([SYSTEM, asked], {}, helper);
	await agent.send([SYSTEM, asked, kept(helped), result("h1")], {}, helper);
	const history = [SYSTEM, ASK, kept(first), result("c1", "the helper is done")];
	const second = await agent.send(history);
	await agent.send([...history, kept(second), result("c2")]);
	expect(agent.calls.map((each) => [each.purpose, each.continuity?.stitched])).toEqual([
		["main", false],
		["subagent", false],
		["subagent", true],
		["main", true],
		["main", true],
	]);
	expectChains(agent.calls);
	expect(samplesOf(agent.calls).map((sample) => sample.purpose)).toEqual(["subagent", "main"]);
});

test("a compaction is an honest fork with its reason, and what follows goes on from the summary", async () => {
	await using agent = station.openAgent();
	const summary = { raw: "All so far.<|im_end|>", message: { role: "assistant", content: "All so far." } };
	engine.next = [oddCall("c1"), oddCall("c2"), summary, oddCall("c3"), done];
	const first = await agent.send([SYSTEM, ASK]);
	const history = [SYSTEM, ASK, kept(first), result("c1")];
	await agent.send(history);
	await agent.send(
		[...history, { role: "user", content: "Summarise." }],
		{ tools: [] },
		{ agent: "compaction" },
	);
	const shortened: Message[] = [SYSTEM, { role: "user", content: "So far: all." }];
	const third = await agent.send(shortened);
	await agent.send([...shortened, kept(third), result("c3")]);
	expect(agent.calls.map((each) => each.continuity)).toMatchObject([
		{ stitched: false, why: FIRST_CALL },
		{ stitched: true, parent: 0 },
		undefined,
		{ stitched: false, why: NOT_DELIVERED },
		{ stitched: true, parent: 3 },
	]);
	const { samples, certificate } = await toSamples(agent.calls);
	expect(samples).toHaveLength(2);
	expect(certificate.continuity).toMatchObject({
		stitched: 2,
		plain: { [NOT_DELIVERED]: 1 },
		breaks: { compaction: 1 },
	});
});

test("an answer that was lost on its way is no parent; the one that arrived is", async () => {
	await using agent = station.openAgent();
	engine.next = [oddCall("lost"), oddCall("c1"), done];
	const release = hold();
	const leave = new AbortController();
	const lost = agent.send([SYSTEM, ASK], {}, { signal: leave.signal });
	await expect.poll(() => engine.requests).toHaveLength(1);
	leave.abort();
	await expect(lost).rejects.toThrow();
	await expect.poll(() => agent.calls).toHaveLength(1);
	release();
	const reply = await agent.send([SYSTEM, ASK]);
	await agent.send([SYSTEM, ASK, kept(reply), result("c1")]);
	expect(agent.calls.map((each) => each.complete)).toEqual([false, true, true]);
	expect(agent.calls[1]).toMatchObject({ retryOf: 0, continuity: { stitched: false, why: FIRST_CALL } });
	expect(agent.calls[2]!.continuity).toMatchObject({ stitched: true, parent: 1 });
	expectChains(agent.calls);
	expect(samplesOf(agent.calls)).toHaveLength(1);
});

test("the agent's note about its last step goes on; without the note the next call is an honest fork", async () => {
	await using agent = station.openAgent();
	engine.next = [oddCall("c1"), done, done];
	const first = await agent.send([SYSTEM, ASK]);
	const history = [SYSTEM, ASK, kept(first), result("c1")];
	const note: Message = {
		role: "assistant",
		content: "CRITICAL - MAXIMUM STEPS REACHED\n\nSay what is left.",
	};
	const last = await agent.send([...history, note]);
	expect(agent.calls[1]!.continuity).toMatchObject({ stitched: true, parent: 0 });
	expectChains(agent.calls);
	await agent.send([...history, kept(last), { role: "user", content: "Go on." }]);
	expect(agent.calls[2]!.continuity).toEqual({ stitched: false, why: NOT_DELIVERED });
	const { certificate } = await toSamples(agent.calls);
	expect(certificate.continuity.breaks).toEqual({ step_limit_note: 1 });
});

test("at a stop string the text is trimmed and the ids are not: both stay, and the turn is closed as context", async () => {
	await using agent = station.openAgent();
	engine.next = [
		{ raw: "I am here STOP", message: { role: "assistant", content: "I am here" }, finish: "stop" },
		done,
	];
	const reply = await agent.send([SYSTEM, ASK], { stop: ["STOP"] });
	const next: Message = { role: "user", content: "Go on." };
	await agent.send([SYSTEM, ASK, kept(reply), next], { stop: ["STOP"] });
	expect(agent.calls[1]!.continuity).toMatchObject({ stitched: true, parent: 0 });
	const { promptIds, completionIds } = agent.calls[0]!;
	expect(completionIds).toEqual(toIds("I am here STOP"));
	const added = toIds("<|im_end|>\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n");
	expect(agent.calls[1]!.promptIds).toEqual([...promptIds, ...completionIds, ...added]);
	const [sample] = samplesOf(agent.calls);
	const from = promptIds.length + completionIds.length;
	expect(sample!.mask.slice(from, from + added.length)).toEqual(added.map(() => 0));
});

test("a turn that ended as the template ends none goes the plain way", async () => {
	await using agent = station.openAgent();
	// As gpt-oss ends its last word, where its template closes a turn with another token.
	engine.next = [{ raw: "Done.<|return|>", message: { role: "assistant", content: "Done." } }, done];
	const reply = await agent.send([SYSTEM, ASK]);
	await agent.send([SYSTEM, ASK, kept(reply), { role: "user", content: "Go on." }]);
	const why = "the turn ended as the template does not end one";
	expect(agent.calls[1]!.continuity).toEqual({ stitched: false, why });
});

test("a tool that does not exist stays what the model called, whatever the agent made of it", async () => {
	await using agent = station.openAgent();
	engine.next = [
		{
			raw: '<|call|>{"name": "look", "arguments": {}}<|im_end|>',
			message: { role: "assistant", content: "", tool_calls: [call("c1", "{}", "look")] },
		},
		done,
	];
	await agent.send([SYSTEM, ASK]);
	const args = '{"tool":"look","error":"Model tried to call unavailable tool"}';
	const rewritten: Message = { role: "assistant", content: "", tool_calls: [call("c1", args, "invalid")] };
	await agent.send([SYSTEM, ASK, rewritten, result("c1", "There is no such tool.")]);
	expect(agent.calls[1]!.continuity).toMatchObject({ stitched: true, how: "rewritten" });
	expect(engine.requests[1]!.messages).toMatchObject([
		{},
		{},
		{ tool_calls: [{ function: { arguments: args } }] },
		{},
	]);
	expectChains(agent.calls);
	expect(samplesOf(agent.calls)).toHaveLength(1);
});

test("words that the model spelled with other tokens than the tokenizer stay as they were sampled", async () => {
	await using agent = station.openAgent();
	const odd = oddCall("c1");
	const [wholeWord, ...rest] = [900_001, ...toIds(odd.raw).slice("I look".length)];
	engine.next = [{ ...odd, ids: [wholeWord!, ...rest] }, done];
	const reply = await agent.send([SYSTEM, ASK]);
	await agent.send([SYSTEM, ASK, kept(reply), result("c1")]);
	expect(agent.calls[1]!.promptIds).toContain(wholeWord);
	expectChains(agent.calls);
	expect(samplesOf(agent.calls)).toHaveLength(1);
});

test.each([
	["longer than", -1, "Input length exceeds model's maximum context length. Please reduce the length."],
	["exactly as long as", 0, "max_tokens must be at least 1, got 0."],
])(
	"a prompt %s the context goes plain, and the agent hears the engine's own words",
	async (_name, spare, words) => {
		await using agent = station.openAgent();
		engine.next = [oddCall("c1"), done];
		const first = await agent.send([SYSTEM, ASK]);
		const history = [SYSTEM, ASK, kept(first), result("c1", "x".repeat(2_000))];
		const { promptIds, completionIds } = agent.calls[0]!;
		const behind = `\n<|im_start|>tool\n${"x".repeat(2_000)}<|im_end|>\n<|im_start|>assistant\n`;
		const stitched = promptIds.length + completionIds.length + toIds(behind).length;
		engine.maxModelLength = stitched + spare;
		// Rendered anew it is shorter by the blanks that were lost; this engine has no room for that either.
		engine.refuse = ({ messages }) => ((messages as Message[]).length > 2 ? words : null);
		await expect(agent.send(history)).rejects.toThrow(words);
		expect(agent.calls[1]!.continuity).toEqual({
			stitched: false,
			why: "the prompt fills the model's context",
		});
		expect(engine.requests.at(-1)).not.toHaveProperty("kv_transfer_params");
		expect(agent.calls[1]!.error?.code).toBe("context_overflow");
		// It shortens its history and goes on.
		const shortened: Message[] = [SYSTEM, { role: "user", content: "Solve the rest." }];
		expect(await agent.send(shortened)).toMatchObject({ content: "Done." });
	},
);

test("an agent's odd request is refused in either form, and takes nothing from other rollouts", async () => {
	await using honest = station.openAgent();
	engine.refuse = (request) =>
		JSON.stringify(request).includes("odd one") ? "kv_transfer_params: what you sent is odd" : null;
	engine.next = [oddCall("c1"), oddCall("c1"), oddCall("c1"), done];
	for (const words of ["odd one", "odd one more"]) {
		await using hostile = station.openAgent();
		const mine = await hostile.send([SYSTEM, ASK]);
		await expect(hostile.send([SYSTEM, ASK, kept(mine), result("c1", words)])).rejects.toThrow();
	}
	const reply = await honest.send([SYSTEM, ASK]);
	await honest.send([SYSTEM, ASK, kept(reply), result("c1")]);
	expect(honest.calls[1]!.continuity).toMatchObject({ stitched: true });
});

test("an engine that refuses ids gets none any more after two", async () => {
	await using agent = station.openAgent();
	engine.ids = "refused";
	engine.next = [oddCall("c1"), oddCall("c2"), oddCall("c3"), done];
	const messages = [SYSTEM, ASK];
	for (const id of ["c1", "c2", "c3"]) messages.push(kept(await agent.send(messages)), result(id));
	await agent.send(messages);
	const tried = engine.requests.filter((request) => request.kv_transfer_params !== undefined);
	expect(tried).toHaveLength(2);
	expect(agent.calls.map((each) => each.continuity)).toMatchObject([
		{ why: FIRST_CALL },
		{ why: "the engine refused a prompt as ids" },
		{ why: "the engine refused a prompt as ids" },
		{ why: "the engine does not use prompts that it is sent as ids" },
	]);
	expect(agent.calls.every((each) => each.complete)).toBe(true);
});

test("SGLang gets the prompt in its own field, and is asked for renders at its own address", async () => {
	engine.dialect = "sglang";
	await using agent = station.openAgent();
	engine.next = [oddCall("c1"), done];
	const reply = await agent.send([SYSTEM, ASK]);
	await agent.send([SYSTEM, ASK, kept(reply), result("c1")]);
	expect(agent.calls[1]!.continuity).toMatchObject({ stitched: true, parent: 0 });
	expect(engine.requests[1]).toMatchObject({ input_ids: agent.calls[1]!.promptIds });
	expect(engine.requests[1]).not.toHaveProperty("kv_transfer_params");
	expectChains(agent.calls);
});

test.each([
	["works on", {}, null],
	["is ignored by", { ids: "ignored" }, "it does not use a prompt that it is sent as ids"],
	["is refused by", { ids: "refused" }, expect.stringContaining("it refuses a prompt as ids")],
	["has no renders on", { tokenize: "missing" }, "the engine does not render prompts"],
] as const)("doctor's question: stitching %s an engine", async (_name, how, stitching) => {
	Object.assign(engine, how);
	engine.next = Array.from({ length: 12 }, () => done);
	const report = await examineEndpoint({
		name: "fake",
		baseUrl: engine.baseUrl,
		model: "m",
		dialect: "vllm",
		disableThinking: false,
	});
	expect(report).toMatchObject({ trouble: null, stitching });
});

/** Answers wait until the returned function is called. */
function hold(): () => void {
	const { promise, resolve } = Promise.withResolvers<void>();
	engine.held = promise;
	return () => {
		engine.held = null;
		resolve();
	};
}
