import { afterEach, beforeEach, expect, test } from "vitest";
import { standsFor } from "../../src/gateway/stitch/recognise.ts";
import { chatMl, type Json, type Message, type TemplateEngine, toIds } from "../fakes/template-engine.ts";
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
	TOOLS,
} from "./stitching.ts";

let station: Awaited<ReturnType<typeof openStitching>>;
let engine: TemplateEngine;
const openAgent: typeof station.openAgent = (...given) => station.openAgent(...given);
beforeEach(async () => {
	station = await openStitching();
	engine = station.engine;
});
afterEach(() => station[Symbol.asyncDispose]());

test("a newline before a call and odd spacing no longer fork: two calls, one sample", async () => {
	await using agent = openAgent();
	engine.next = [oddCall("c1"), done];
	const reply = await agent.send([SYSTEM, ASK]);
	await agent.send([SYSTEM, ASK, kept(reply), result("c1")]);
	expect(agent.calls[1]!.continuity).toMatchObject({ stitched: true, parent: 0, how: "respelled" });
	expectChains(agent.calls);
	// What follows is what the template itself puts behind a turn.
	const { promptIds, completionIds } = agent.calls[0]!;
	const added = agent.calls[1]!.promptIds.slice(promptIds.length + completionIds.length);
	expect(added).toEqual(toIds("\n<|im_start|>tool\nok<|im_end|>\n<|im_start|>assistant\n"));
	expect(JSON.stringify(agent.calls[1]!.request)).not.toContain("prompt_token_ids");
	expect(samplesOf(agent.calls)).toHaveLength(1);
});

test("with continuity off the same conversation forks, and nothing is rendered", async () => {
	await using agent = openAgent({ continuity: "off" });
	engine.next = [oddCall("c1"), done];
	const reply = await agent.send([SYSTEM, ASK]);
	await agent.send([SYSTEM, ASK, kept(reply), result("c1")]);
	expect(engine.renders).toHaveLength(0);
	expect(agent.calls[1]!.continuity).toBeUndefined();
	const whole = [...agent.calls[0]!.promptIds, ...agent.calls[0]!.completionIds];
	expect(agent.calls[1]!.promptIds.slice(0, whole.length)).not.toEqual(whole);
});

test("a call that the agent could not read and replaced is what the model sees as it said it", async () => {
	await using agent = openAgent();
	const broken = '{"command": "ls';
	engine.next = [
		{
			raw: `<|call|>{"name": "bash", "arguments": ${broken}}<|im_end|>`,
			message: { role: "assistant", content: "", tool_calls: [call("c1", broken)] },
		},
		done,
	];
	await agent.send([SYSTEM, ASK]);
	const invalid = {
		role: "assistant",
		content: "",
		tool_calls: [call("c1", '{"tool":"bash","error":"bad"}', "invalid")],
	};
	await agent.send([SYSTEM, ASK, invalid, result("c1", "The arguments are invalid.")]);
	expect(agent.calls[1]!.continuity).toMatchObject({ stitched: true, how: "rewritten" });
	expectChains(agent.calls);
});

test("parallel calls with both results go on; with one call dropped by the agent they fork", async () => {
	await using agent = openAgent();
	const both = {
		raw: '<|call|>{"name":"bash","arguments":{"a":1}}\n<|call|>{"name":"bash","arguments":{"b":2}}<|im_end|>',
		message: { role: "assistant", content: null, tool_calls: [call("c1", '{"a":1}'), call("c2", '{"b":2}')] },
	};
	engine.next = [both, done, both, done];
	const reply = await agent.send([SYSTEM, ASK]);
	await agent.send([SYSTEM, ASK, kept(reply), result("c1"), result("c2")]);
	expect(agent.calls[1]!.continuity).toMatchObject({ stitched: true });
	await agent.send([SYSTEM, ASK], {}, { session: "ses_2" });
	const one = { ...kept(reply), tool_calls: [call("c1", '{"a":1}')] };
	await agent.send([SYSTEM, ASK, one, result("c1")], {}, { session: "ses_2" });
	expect(agent.calls[3]!.continuity).toEqual({
		stitched: false,
		why: "the history is not one that was delivered",
	});
});

test("an answer cut at the limit is closed by the template's own token, as context", async () => {
	await using agent = openAgent();
	engine.next = [
		{ raw: "I think that", message: { role: "assistant", content: "I think that" }, finish: "length" },
		done,
	];
	const reply = await agent.send([SYSTEM, ASK]);
	await agent.send([SYSTEM, ASK, kept(reply), { role: "user", content: "Go on." }]);
	expect(agent.calls[1]!.continuity).toMatchObject({ stitched: true });
	expectChains(agent.calls);
	const { promptIds, completionIds } = agent.calls[0]!;
	const added = agent.calls[1]!.promptIds.slice(promptIds.length + completionIds.length);
	expect(added).toEqual(toIds("<|im_end|>\n<|im_start|>user\nGo on.<|im_end|>\n<|im_start|>assistant\n"));
});

test("sessions are kept apart, and two branches may leave one call", async () => {
	await using agent = openAgent();
	engine.next = [oddCall("c1"), oddCall("c1"), done, done, done];
	const first = await agent.send([SYSTEM, ASK], {}, { session: "ses_a" });
	await agent.send([SYSTEM, ASK], {}, { session: "ses_b" });
	await agent.send([SYSTEM, ASK, kept(first), result("c1", "one")], {}, { session: "ses_a" });
	await agent.send([SYSTEM, ASK, kept(first), result("c1", "two")], {}, { session: "ses_b" });
	await agent.send([SYSTEM, ASK, kept(first), result("c1", "three")], {}, { session: "ses_a" });
	expect(agent.calls.slice(2).map((each) => each.continuity)).toMatchObject([
		{ stitched: true, parent: 0 },
		{ stitched: true, parent: 1 },
		{ stitched: true, parent: 0 },
	]);
	expectChains(agent.calls);
});

test.each([
	["a pruned tool result", (messages: Message[]) => messages.with(3, result("c1", "[pruned]")), {}],
	[
		"another system prompt",
		(messages: Message[]) => messages.with(0, { role: "system", content: "Else." }),
		{},
	],
	[
		"other tools",
		(messages: Message[]) => messages,
		{ tools: [...TOOLS, { type: "function", function: { name: "x" } }] },
	],
	[
		"words of the agent's own in between",
		(messages: Message[]) => messages.toSpliced(4, 0, { role: "assistant", content: "Hm." }),
		{},
	],
])("%s is an honest fork", async (_name, change, extra) => {
	await using agent = openAgent();
	engine.next = [oddCall("c1"), oddCall("c2"), done];
	const first = await agent.send([SYSTEM, ASK]);
	const second = await agent.send([SYSTEM, ASK, kept(first), result("c1")]);
	await agent.send(change([SYSTEM, ASK, kept(first), result("c1"), kept(second), result("c2")]), extra);
	expect(agent.calls[2]!.continuity).toEqual({
		stitched: false,
		why: "the history is not one that was delivered",
	});
});

test("an engine that ignores the ids is found out by its echo, and left alone after two", async () => {
	await using agent = openAgent();
	engine.ids = "ignored";
	engine.next = [oddCall("c1"), oddCall("c2"), oddCall("c3"), oddCall("c4"), done];
	const messages = [SYSTEM, ASK];
	for (const id of ["c1", "c2", "c3", "c4"]) messages.push(kept(await agent.send(messages)), result(id));
	await agent.send(messages);
	const why = agent.calls.slice(1).map((each) => each.continuity);
	expect(why.slice(0, 2)).toEqual([
		{ stitched: false, why: "the engine did not use the ids it was sent" },
		{ stitched: false, why: "the engine did not use the ids it was sent" },
	]);
	expect(why[2]).toEqual({ stitched: false, why: "the engine does not use prompts that it is sent as ids" });
	// What is recorded is what the engine used.
	expect(agent.calls[1]!.promptIds).toEqual(toIds(chatMl(messages.slice(0, 4), TOOLS)));
});

test("an engine that refuses the field gets the plain request at once, and the agent notices nothing", async () => {
	await using agent = openAgent();
	engine.ids = "refused";
	engine.next = [oddCall("c1"), done];
	const reply = await agent.send([SYSTEM, ASK]);
	expect(await agent.send([SYSTEM, ASK, kept(reply), result("c1")])).toMatchObject({ content: "Done." });
	expect(agent.calls[1]!.continuity).toEqual({ stitched: false, why: "the engine refused a prompt as ids" });
	expect(agent.calls[1]).toMatchObject({ complete: true, error: null });
});

test.each([
	["missing", "the engine does not render prompts"],
	["wrong", "the engine renders otherwise than it prompts"],
] as const)("renders that are %s mean the plain way", async (tokenize, why) => {
	await using agent = openAgent();
	engine.tokenize = tokenize;
	engine.next = [oddCall("c1"), done];
	const reply = await agent.send([SYSTEM, ASK]);
	await agent.send([SYSTEM, ASK, kept(reply), result("c1")]);
	expect(agent.calls[1]!.continuity).toEqual({ stitched: false, why });
});

test("a render that does not come is waited for once", async () => {
	await using agent = openAgent();
	engine.tokenize = "hangs";
	engine.next = [oddCall("c1"), oddCall("c2"), done];
	const messages = [SYSTEM, ASK];
	for (const id of ["c1", "c2"]) messages.push(kept(await agent.send(messages)), result(id));
	await agent.send(messages);
	for (const each of agent.calls.slice(1))
		expect(each.continuity).toEqual({ stitched: false, why: "the engine did not render in time" });
	expect(engine.renders).toHaveLength(1);
});

test("pictures go the plain way", async () => {
	await using agent = openAgent();
	engine.next = [oddCall("c1"), done];
	const reply = await agent.send([SYSTEM, ASK]);
	const picture = {
		role: "user",
		content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AA" } }],
	};
	await agent.send([SYSTEM, ASK, kept(reply), result("c1"), picture]);
	expect(agent.calls[1]!.continuity).toEqual({ stitched: false, why: "the messages hold more than text" });
});

test("thoughts stay within a tool cycle; a person's new words fork unless they are to be kept", async () => {
	const thinking = {
		raw: '<|think|>hm<|think_end|><|call|>{"name": "bash", "arguments": {}}<|im_end|>',
		message: { role: "assistant", content: "", reasoning: "hm", tool_calls: [call("c1", "{}")] },
	};
	for (const keepReasoning of [false, true]) {
		await using agent = openAgent({ keepReasoning });
		engine.next = [thinking, done, done];
		const first = await agent.send([SYSTEM, ASK]);
		const history = [SYSTEM, ASK, kept(first), result("c1")];
		const second = await agent.send(history);
		expect(agent.calls[1]!.continuity).toMatchObject({ stitched: true });
		await agent.send([...history, kept(second), { role: "user", content: "And now?" }]);
		expect(agent.calls[2]!.continuity?.stitched).toBe(keepReasoning);
		expectChains(agent.calls);
	}
});

test("a box cannot send ids of its own", async () => {
	await using agent = openAgent();
	engine.next = [done];
	await agent.send([SYSTEM, ASK], {
		kv_transfer_params: { prompt_token_ids: [1] },
		input_ids: [2],
		prompt_token_ids: [3],
	});
	for (const field of ["kv_transfer_params", "input_ids", "prompt_token_ids"])
		expect(engine.requests[0]).not.toHaveProperty(field);
});

/** What a turn of a random conversation may be; each has to occur. */
const TURNS = [
	"a call",
	"text and a call",
	"two calls",
	"a call that the agent rewrites",
	"a cut answer",
] as const;

test("over random conversations every stitched prompt starts with all before it, and there is one sample", async () => {
	const random = mulberry32(42);
	const words = ["ls", "é ü", '"quoted"', "a\\nb", "{}", "🙂", "<tag>", "  blanks  "];
	const word = () => words[random(words.length)]!;
	const blanks = (of: string) => of.repeat(random(3));
	const seen = { turns: new Set<string>(), words: new Set<string>(), hows: new Set<string>() };
	for (let round = 0; round < 40; round += 1) {
		await using agent = openAgent();
		const messages = [SYSTEM, ASK];
		const turns = 2 + random(5);
		for (let turn = 0; turn < turns; turn += 1) {
			const kind = TURNS[random(TURNS.length)]!;
			seen.turns.add(kind);
			const calls = Array.from({ length: kind === "two calls" ? 2 : 1 }, (_, at) => {
				const said = word();
				seen.words.add(said);
				const args = JSON.stringify({ command: said, [word()]: random(9) }, null, random(3));
				return { id: `c${round}_${turn}_${at}`, args };
			});
			const text = kind === "text and a call" || kind === "a cut answer" ? `${word()}x${blanks("\n")}` : "";
			if (kind === "a cut answer") {
				engine.next.push({ raw: text, message: { role: "assistant", content: text }, finish: "length" });
				messages.push(kept(await agent.send(messages)), { role: "user", content: word() });
				continue;
			}
			engine.next.push({
				raw: `${text}${blanks("\n")}${calls.map(({ args }) => `<|call|>{"name": "bash",${blanks(" ")}"arguments": ${args}}`).join("\n")}<|im_end|>`,
				message: {
					role: "assistant",
					content: text,
					tool_calls: calls.map(({ id, args }) => call(id, args)),
				},
			});
			const reply = kept(await agent.send(messages));
			if (kind === "a call that the agent rewrites")
				reply.tool_calls = [call(calls[0]!.id, JSON.stringify({ tool: "bash", error: word() }), "invalid")];
			messages.push(reply, ...calls.map(({ id }) => result(id, word())));
		}
		engine.next.push(done);
		await agent.send(messages);
		const later = agent.calls.slice(1).map((each) => each.continuity!);
		expect(later.map(({ stitched }) => stitched)).toEqual(Array(turns).fill(true));
		for (const each of later) if (each.stitched) seen.hows.add(each.how);
		expectChains(agent.calls);
		expect(samplesOf(agent.calls)).toHaveLength(1);
	}
	expect([...seen.turns].sort()).toEqual([...TURNS].sort());
	expect([...seen.words].sort()).toEqual([...words].sort());
	expect([...seen.hows].sort()).toEqual(["exact", "respelled", "rewritten"]);
});

test("an engine that breaks on a prompt as ids gets the plain one, and after the second time no ids in this rollout", async () => {
	await using agent = openAgent();
	const broke = { stitched: false, why: "the engine broke on a prompt as ids" };
	engine.next = [oddCall("c1"), oddCall("c2"), oddCall("c3"), done];
	const messages = [SYSTEM, ASK, kept(await agent.send([SYSTEM, ASK])), result("c1")];
	for (const [id, breaks] of [["c2", 1] as const, ["c3", 1] as const, ["c4", 0] as const]) {
		engine.breaks = breaks;
		messages.push(kept(await agent.send(messages)), result(id));
		expect(agent.calls.at(-1)!.continuity).toEqual(broke);
	}
	const hasIds = engine.requests.map((request) => "kv_transfer_params" in request);
	expect(hasIds).toEqual([false, true, false, true, false, false]);
	await using other = openAgent();
	engine.next = [oddCall("d1"), done];
	const reply = await other.send([SYSTEM, ASK]);
	await other.send([SYSTEM, ASK, kept(reply), result("d1")]);
	expect(other.calls[1]!.continuity).toMatchObject({ stitched: true });
});

test("a stitched call that has begun to speak is not sent again", async () => {
	await using agent = openAgent();
	engine.next = [oddCall("c1"), { ...done }, done];
	const reply = await agent.send([SYSTEM, ASK]);
	const history = [SYSTEM, ASK, kept(reply), result("c1")];
	engine.breaks = 1;
	const response = await agent.post(history, { stream: true });
	await expect(response.text()).rejects.toThrow();
	expect(engine.requests.filter((request) => "kv_transfer_params" in request)).toHaveLength(1);
	expect(engine.requests).toHaveLength(2);
	// The agent asks again by itself, and the ids stand as before: they were not what broke it.
	expect(await (await agent.post(history, { stream: true })).text()).toContain("Done.");
	expect(agent.calls.at(-1)!.continuity).toMatchObject({ stitched: true, parent: 0 });
	expectChains(agent.calls);
});

test("a render that hangs holds up no other large call", async () => {
	await using agent = openAgent();
	await using other = openAgent();
	const large = { role: "user", content: "x".repeat(20_000) };
	const padded = { metadata: { padding: "y".repeat(600_000) } };
	engine.next = [oddCall("c1"), done];
	const reply = await agent.send([SYSTEM, large], padded);
	const release = Promise.withResolvers<void>();
	await expect.poll(() => engine.renders.length).toBeGreaterThan(0);
	engine.heldRenders = release.promise;
	const before = engine.renders.length;
	const waiting = agent.send([SYSTEM, large, kept(reply), result("c1")], padded);
	await expect.poll(() => engine.renders.length).toBeGreaterThan(before);
	// The other one's answer comes while the first still waits for its renders.
	engine.next.unshift(done);
	await other.send([SYSTEM, large], padded);
	expect(agent.calls).toHaveLength(1);
	release.resolve();
	await waiting;
	expect(agent.calls[1]!.continuity).toMatchObject({ stitched: true });
});

test.each([
	["off for its endpoint", {}, false],
	["off for its endpoint, and asked for", { continuity: "auto" }, true],
])("continuity %s", async (_title, sampling, isStitched) => {
	await using agent = openAgent(sampling, { endpoint: { continuity: "off" } });
	engine.next = [oddCall("c1"), done];
	const reply = await agent.send([SYSTEM, ASK]);
	await agent.send([SYSTEM, ASK, kept(reply), result("c1")]);
	expect(agent.calls[1]!.continuity?.stitched ?? false).toBe(isStitched);
	expect(engine.renders.length > 0).toBe(isStitched);
});

test("without capture nothing is stitched", async () => {
	await using agent = openAgent({}, { captures: false });
	engine.next = [oddCall("c1"), done];
	const reply = await agent.send([SYSTEM, ASK]);
	await agent.send([SYSTEM, ASK, kept(reply), result("c1")]);
	expect(engine.renders).toHaveLength(0);
	expect(engine.requests.some((request) => "kv_transfer_params" in request)).toBe(false);
});

test("a message stands for a reply by its words and the ids of its calls, whatever their spelling", () => {
	const reply = { content: "Hi", tool_calls: [call("c1", '{"a": 1}')] };
	const like = (content: string, ...calls: Json[]) =>
		standsFor(reply, { role: "assistant", content, tool_calls: calls });
	expect(like("Hi", call("c1", '{"a": 1}'))).toBe("exact");
	expect(like("Hi\n", call("c1", '{"a":1}'))).toBe("respelled");
	expect(like("Hi", call("c1", "{}", "invalid"))).toBe("rewritten");
	const two = { content: "", tool_calls: [call("c1", '{"a": 1, "b": {"c": "\\u00e9", "d": 2}}')] };
	const reordered = call("c1", '{"b":{"d":2,"c":"é"},"a":1}');
	expect(standsFor(two, { role: "assistant", tool_calls: [reordered] })).toBe("respelled");
	expect(like("Hi", call("c2", '{"a": 1}'))).toBeNull();
	expect(like("Ho", call("c1", '{"a": 1}'))).toBeNull();
	expect(like("Hi")).toBeNull();
	expect(standsFor(reply, { role: "user", content: "Hi" })).toBeNull();
});

/** A small generator whose every bit is good. */
function mulberry32(seed: number): (below: number) => number {
	let state = seed;
	return (below) => {
		state = (state + 0x6d2b79f5) | 0;
		let mixed = Math.imul(state ^ (state >>> 15), state | 1);
		mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
		return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
	};
}
