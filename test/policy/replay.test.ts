import { expect, test } from "vitest";
import type { ModelCall } from "../../src/model/call.ts";
import { openPolicyServer } from "../../src/policy/server.ts";
import { ask, converse, type Heard, makeTask, replayed, TOOLS } from "./client.ts";

const TASK = makeTask();
const OPENING = [
	{ role: "system", content: "You are an agent." },
	{ role: "user", content: "Write a greeting." },
];
const SUB_TOOLS = TOOLS.filter((tool) => tool.function.name !== "task");

/** What the gateway keeps of a call, with ids no tokenizer of ours would make. */
function recordCall(
	index: number,
	purpose: ModelCall["purpose"],
	messages: object[],
	reply: Partial<Heard>,
): ModelCall {
	const ids = reply.ids ?? [90_001 + index, 90_002 + index, 90_003 + index];
	return {
		index,
		attempt: 1,
		retryOf: null,
		superseded: false,
		purpose,
		agentName: null,
		sessionId: `ses_${purpose}`,
		parentSessionId: null,
		protocol: "chat",
		dialect: "vllm",
		engine: "vllm",
		model: "m",
		startedAt: index,
		firstByteMs: 1,
		lastByteMs: 2,
		request: { messages, tools: [], params: {}, patch: {} },
		response: {
			message: {
				role: "assistant",
				content: reply.text ?? null,
				tool_calls: reply.calls,
				reasoning: reply.reasoning,
			},
			finishReason: reply.calls ? "tool_calls" : "stop",
		},
		usage: { promptTokens: 7 + index, completionTokens: ids.length },
		promptIds: [5, 6, index],
		completionIds: ids,
		completionTexts: ids.map((id) => `<${id}>`),
		logprobs: ids.map((id) => Math.fround(-1 / id)),
		invalidTokens: [],
		complete: true,
		upstreamStatus: 200,
		error: null,
		losses: [],
	};
}

const call = (id: string, command: string) => ({
	id,
	type: "function",
	function: { name: "bash", arguments: JSON.stringify({ command }) },
});

const FIRST = { text: "Looking.", reasoning: "hm", calls: [call("c1", "ls"), call("c2", "pwd 🎉")] };
const AFTER_FIRST = [
	...OPENING,
	replayed({
		...FIRST,
		chunks: [],
		promptIds: [],
		ids: [],
		logprobs: [],
		finishReason: null,
		usage: undefined,
		lastLine: "",
	}),
	...FIRST.calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "bash did it: ünï 🎉" })),
];

function recording(calls: ModelCall[]) {
	return async function* () {
		yield* calls;
	};
}

test("a replayed rollout says the same messages with the same ids and logprobs", async () => {
	const calls = [
		recordCall(0, "main", OPENING, FIRST),
		recordCall(1, "main", AFTER_FIRST, { text: "All done." }),
	];
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "replay", task: TASK, recorded: recording(calls) });
	const heard = await converse(cast.endpoint, OPENING);
	expect(heard.map(({ text, reasoning }) => [text, reasoning])).toEqual([
		["Looking.", "hm"],
		["All done.", ""],
	]);
	expect(heard[0]?.calls).toEqual(FIRST.calls);
	for (const [index, reply] of heard.entries()) {
		expect(reply.ids).toEqual(calls[index]?.completionIds);
		expect(reply.logprobs).toEqual(calls[index]?.logprobs);
		expect(reply.promptIds).toEqual(calls[index]?.promptIds);
		expect(reply.finishReason).toBe(calls[index]?.response.finishReason);
	}
});

test("prompt ids are left out where the conversation took another turn than the recorded one", async () => {
	const calls = [recordCall(0, "main", OPENING, { text: "Hello." })];
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "replay", task: TASK, recorded: recording(calls) });
	const heard = await ask(cast.endpoint, [OPENING[0]!, { role: "user", content: "Something else." }]);
	expect([heard.text, heard.promptIds]).toEqual(["Hello.", []]);
	expect(heard.ids).toEqual(calls[0]?.completionIds);
});

test("a repeated request gets the same answer; superseded and broken calls are never played", async () => {
	const calls = [
		{ ...recordCall(0, "main", OPENING, { text: "cut off" }), complete: false },
		{ ...recordCall(1, "main", OPENING, { text: "lost" }), superseded: true },
		recordCall(2, "main", OPENING, FIRST),
		recordCall(3, "main", AFTER_FIRST, { text: "All done." }),
	];
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "replay", task: TASK, recorded: recording(calls) });
	expect((await ask(cast.endpoint, OPENING)).text).toBe("Looking.");
	expect((await ask(cast.endpoint, OPENING)).text).toBe("Looking.");
	expect((await ask(cast.endpoint, AFTER_FIRST)).text).toBe("All done.");
});

test("titles, summaries and each sub-agent find their own recorded calls, in whatever order they ask", async () => {
	const east = [{ role: "user", content: "Look east." }];
	const west = [{ role: "user", content: "Look west." }];
	const calls = [
		recordCall(0, "title", OPENING, { text: "A title" }),
		recordCall(1, "main", OPENING, { text: "main" }),
		recordCall(2, "subagent", east, { text: "east" }),
		recordCall(3, "subagent", west, { text: "west" }),
		recordCall(4, "compaction", OPENING, { text: "A summary" }),
	];
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "replay", task: TASK, recorded: recording(calls) });
	const say = async (messages: object[], extra?: object) => (await ask(cast.endpoint, messages, extra)).text;
	expect(await say([{ role: "system", content: "a context summarization agent" }], { tools: [] })).toBe(
		"A summary",
	);
	expect(await say(west, { tools: SUB_TOOLS })).toBe("west");
	expect(await say(OPENING)).toBe("main");
	expect(await say(east, { tools: SUB_TOOLS })).toBe("east");
	expect(await say([{ role: "system", content: "a title generator" }], { tools: [] })).toBe("A title");
});

test("a recording without ids plays without ids", async () => {
	const bare = {
		...recordCall(0, "main", OPENING, { text: "Hello there." }),
		promptIds: [],
		completionIds: [],
		logprobs: [],
	};
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "replay", task: TASK, recorded: recording([bare]) });
	const heard = await ask(cast.endpoint, OPENING);
	expect([heard.text, heard.ids, heard.logprobs, heard.promptIds]).toEqual(["Hello there.", [], [], []]);
});

test("when the recording is over the next request is refused for good", async () => {
	await using server = await openPolicyServer();
	using cast = await server.cast({ policy: "replay", task: TASK, recorded: recording([]) });
	await expect(ask(cast.endpoint, OPENING)).rejects.toThrow("400");
});

test("replay without a recording is a usage error", async () => {
	await using server = await openPolicyServer();
	await expect(server.cast({ policy: "replay", task: TASK })).rejects.toMatchObject({
		code: "replay_without_trace",
	});
});
