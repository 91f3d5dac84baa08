import { expect, test } from "vitest";
import { UsageError } from "../../src/errors.ts";
import { POLICY_NAMES } from "../../src/policy/names.ts";
import type { PolicyStep } from "../../src/policy/policy.ts";
import { openPolicyServer } from "../../src/policy/server.ts";
import { decode } from "../../src/policy/tokenizer.ts";
import { ask, converse, makeTask, post, TOOLS } from "./client.ts";

const OPENING = [
	{ role: "system", content: "You are an agent in /home/user/workdir." },
	{ role: "user", content: "Write a greeting." },
];

const SOLVED = makeTask({
	solution: [
		{ tool: "write", path: "greeting.txt", content: 'Grüße, "world" 🎉\n\tbye\n' },
		{ tool: "edit", path: "greeting.txt", old: "bye", new: "see you" },
		{ tool: "bash", command: "cat greeting.txt" },
	],
});

test("the oracle plays its solution through the agent's tools, one step for each call, and closes with a sentence", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "oracle", task: SOLVED });
	const heard = await converse(cast.endpoint, OPENING);
	const played = heard.map((reply) =>
		reply.calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]),
	);
	expect(played).toEqual([
		[["write", { filePath: "greeting.txt", content: 'Grüße, "world" 🎉\n\tbye\n' }]],
		[["edit", { filePath: "greeting.txt", oldString: "bye", newString: "see you" }]],
		[["bash", { command: "cat greeting.txt", description: expect.any(String) }]],
		[],
	]);
	expect(heard.map((reply) => reply.finishReason)).toEqual([
		"tool_calls",
		"tool_calls",
		"tool_calls",
		"stop",
	]);
	expect(heard.at(-1)?.text).not.toBe("");
});

test("the oracle without a solution takes one harmless step and says so", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "oracle", task: makeTask() });
	const heard = await converse(cast.endpoint, OPENING);
	expect(heard.map((reply) => reply.calls.map((call) => call.function.name))).toEqual([["bash"], []]);
});

test("noop answers one sentence and calls nothing", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "noop", task: SOLVED });
	const heard = await converse(cast.endpoint, OPENING);
	expect(heard).toHaveLength(1);
	expect(heard[0]?.text).not.toBe("");
});

test("a stream has prompt ids on its first chunk, one id and one logprob for each token, usage last, then DONE", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "oracle", task: SOLVED });
	const heard = await ask(cast.endpoint, OPENING);
	expect(heard.chunks[0]?.choices[0]?.delta).toEqual({ role: "assistant", content: "" });
	expect(heard.chunks[0]?.prompt_token_ids).toHaveLength(heard.usage?.prompt_tokens ?? -1);
	expect(heard.chunks.slice(1).some((chunk) => chunk.prompt_token_ids)).toBe(false);
	expect(heard.ids).toHaveLength(heard.usage?.completion_tokens ?? -1);
	expect(heard.logprobs).toHaveLength(heard.ids.length);
	expect(
		heard.logprobs.every((logprob) => logprob < 0 && logprob > -4 && Math.fround(logprob) === logprob),
	).toBe(true);
	expect(heard.chunks.at(-1)?.choices).toEqual([]);
	expect(heard.lastLine).toBe("data: [DONE]");
});

test("a tool call is announced with its name and empty arguments, which then arrive in pieces", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "oracle", task: SOLVED });
	const { chunks } = await ask(cast.endpoint, OPENING);
	const parts = chunks.flatMap((chunk) => chunk.choices.flatMap((choice) => choice.delta.tool_calls ?? []));
	expect(parts[0]).toEqual({
		index: 0,
		id: expect.any(String),
		type: "function",
		function: { name: "write", arguments: "" },
	});
	expect(parts.length).toBeGreaterThan(5);
	expect(parts.slice(1).every((part) => part.id === undefined && part.function.name === undefined)).toBe(
		true,
	);
});

test("ids and logprobs are the same each time, and absent unless asked for", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "oracle", task: SOLVED });
	const [first, second] = [await ask(cast.endpoint, OPENING), await ask(cast.endpoint, OPENING)];
	expect([second.ids, second.logprobs, second.promptIds]).toEqual([
		first.ids,
		first.logprobs,
		first.promptIds,
	]);
	const plain = await ask(cast.endpoint, OPENING, { return_token_ids: undefined, logprobs: undefined });
	expect(plain.calls).toEqual(first.calls);
	expect([plain.ids, plain.promptIds, plain.logprobs]).toEqual([[], [], []]);
});

const EVERYTHING: PolicyStep[] = [
	{ reasoning: "First I think, ä bit. \n", text: "Then I speak.  \n", calls: [bash("ls"), bash("pwd")] },
	{
		calls: [
			{ tool: "write", args: { content: "<|end|><|call|>\u0000 🎉\ud83c", filePath: "x", 1: [null, 1e21] } },
		],
	},
	{ text: "just\n\n\ttext", calls: [bash("")] },
	{ reasoning: "so", text: "done" },
];

test("each prompt begins with all tokens of the call before it when the agent repeats the conversation faithfully", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "oracle", task: SOLVED, steps: EVERYTHING });
	const heard = await converse(cast.endpoint, OPENING);
	expect(heard).toHaveLength(4);
	for (const [turn, reply] of heard.slice(0, -1).entries()) {
		const before = [...reply.promptIds, ...reply.ids];
		expect(heard[turn + 1]?.promptIds.slice(0, before.length)).toEqual(before);
	}
	expect(heard[0]?.reasoning).toBe("First I think, ä bit.");
	expect(heard[0]?.calls).toHaveLength(2);
});

test("sampled ids decode to exactly the text that was streamed", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({
		policy: "oracle",
		task: SOLVED,
		steps: [{ text: "Häagen 🎉 <|end|> ok" }],
	});
	const heard = await ask(cast.endpoint, OPENING);
	expect(heard.text).toBe("Häagen 🎉 <|end|> ok");
	expect(decode(heard.ids.slice(0, -1))).toBe(heard.text);
});

test("an answer without streaming says the same as the stream", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "oracle", task: SOLVED, steps: EVERYTHING });
	const asked = { messages: OPENING, tools: TOOLS, return_token_ids: true, logprobs: true, top_logprobs: 2 };
	const streamed = await ask(cast.endpoint, OPENING);
	const whole = (await (await post(cast.endpoint, asked)).json()) as {
		prompt_token_ids: number[];
		usage: object;
		choices: [
			{
				message: { content: string; reasoning: string; tool_calls: object[] };
				token_ids: number[];
				logprobs: { content: { logprob: number; top_logprobs: { logprob: number }[] }[] };
			},
		];
	};
	const [choice] = whole.choices;
	expect(whole.prompt_token_ids).toEqual(streamed.promptIds);
	expect(whole.usage).toEqual(streamed.usage);
	expect(choice.token_ids).toEqual(streamed.ids);
	expect(choice.message).toEqual({
		role: "assistant",
		content: streamed.text,
		reasoning: streamed.reasoning,
		tool_calls: streamed.calls,
	});
	expect(choice.logprobs.content.map((entry) => entry.logprob)).toEqual(streamed.logprobs);
	expect(choice.logprobs.content.every((entry) => entry.top_logprobs[0]?.logprob === entry.logprob)).toBe(
		true,
	);
});

test("max_tokens cuts a reply and says so", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "oracle", task: SOLVED });
	const heard = await ask(cast.endpoint, OPENING, { max_tokens: 5 });
	expect([heard.ids.length, heard.usage?.completion_tokens, heard.finishReason]).toEqual([5, 5, "length"]);
});

test("titles and summaries get a fitting text, sub-agents their own steps", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({
		policy: "oracle",
		task: SOLVED,
		subagentSteps: [{ calls: [bash("ls")] }, { text: "seen" }],
	});
	const without = { tools: undefined };
	const title = await ask(
		cast.endpoint,
		[{ role: "system", content: "You are a title generator." }],
		without,
	);
	const summary = await ask(
		cast.endpoint,
		[{ role: "system", content: "A context summarization agent" }],
		without,
	);
	expect([title.calls, summary.calls]).toEqual([[], []]);
	expect(title.text).toContain("greet");
	expect(summary.text).toContain("greet");
	const tools = TOOLS.filter((tool) => tool.function.name !== "task");
	const sub = await converse(cast.endpoint, [{ role: "user", content: "Look around." }], { tools });
	expect(sub.map((reply) => reply.text || reply.calls[0]?.function.name)).toEqual(["bash", "seen"]);
	const main = await ask(cast.endpoint, OPENING, { tools });
	expect(main.calls[0]?.function.name).toBe("write");
});

test("the play goes on where it was after the agent has summarised its beginning away", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "oracle", task: SOLVED });
	const second = (await converse(cast.endpoint, OPENING))[1]!;
	const compacted = [
		OPENING[0]!,
		{ role: "user", content: "What did we do so far?" },
		{ role: "assistant", content: "A summary." },
		{ role: "assistant", content: "", tool_calls: second.calls },
		{ role: "tool", tool_call_id: second.calls[0]!.id, content: "ok" },
		{ role: "user", content: "Continue." },
	];
	expect((await ask(cast.endpoint, compacted)).calls[0]?.function.name).toBe("bash");
});

test("an empty assistant turn, left by a broken stream, does not count as a step", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "oracle", task: SOLVED });
	const heard = await ask(cast.endpoint, [...OPENING, { role: "assistant", content: "" }]);
	expect(heard.calls[0]?.function.name).toBe("write");
});

test("a wrong key, another role's key, an unknown model and an ended role are refused alike", async () => {
	await using server = await openPolicyServer();
	using one = await server.cast({ policy: "noop", task: SOLVED });
	const other = await server.cast({ policy: "noop", task: SOLVED });
	const body = { messages: OPENING };
	expect((await post(one.endpoint, body)).status).toBe(200);
	expect((await post(one.endpoint, body, "wrong")).status).toBe(401);
	expect((await post(one.endpoint, body, other.endpoint.apiKey)).status).toBe(401);
	expect((await post(one.endpoint, { ...body, model: "gpt" })).status).toBe(401);
	other[Symbol.dispose]();
	expect((await post(other.endpoint, body)).status).toBe(401);
});

test("a malformed request gets 400 in the protocol's own shape", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "noop", task: SOLVED });
	const response = await post(cast.endpoint, { messages: "hello" });
	expect(response.status).toBe(400);
	expect(await response.json()).toMatchObject({
		error: { type: "invalid_request_error", message: expect.stringContaining("messages") },
	});
});

test("models lists only the model that the key belongs to", async () => {
	await using server = await openPolicyServer();
	using one = await server.cast({ policy: "noop", task: SOLVED });
	using _other = await server.cast({ policy: "oracle", task: SOLVED });
	const list = (key: string) =>
		fetch(`${server.baseUrl}/models`, { headers: { authorization: `Bearer ${key}` } });
	const body = (await (await list(one.endpoint.apiKey ?? "")).json()) as { data: { id: string }[] };
	expect(body.data.map((model) => model.id)).toEqual([one.endpoint.model]);
	expect((await list("wrong")).status).toBe(401);
});

test("an unknown policy is refused with the names of all that exist", async () => {
	await using server = await openPolicyServer();
	const refused = await server.cast({ policy: "orakel", task: SOLVED }).catch((error: unknown) => error);
	expect(refused).toBeInstanceOf(UsageError);
	for (const name of POLICY_NAMES) expect((refused as UsageError).message).toContain(name);
});

function bash(command: string) {
	return { tool: "bash", args: { command, description: "does it" } };
}
