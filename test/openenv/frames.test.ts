import { describe, expect } from "vitest";
import { callFrame, task, test } from "./fixtures.ts";
import { type Json, resultOf } from "./raw-client.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const uuid = expect.stringMatching(UUID);
const metadata = expect.any(Object);

const FRESH_STATE = {
	episode_id: uuid,
	step_count: 0,
	rollouts_completed: 0,
	last_reward: null,
	last_task_id: null,
	last_sandbox_id: null,
	last_rollout_id: null,
};

function refused(code: string, message: unknown, extra: Json = {}): Json {
	return { type: "error", data: { code, message, ...extra } };
}

function invalid(type: string, loc: (string | number)[], msg: string): Json {
	return refused("VALIDATION_ERROR", "Invalid message", {
		errors: [{ type, loc, msg, input: expect.toSatisfy((input) => input !== undefined) }],
	});
}

const begun = { observation: { metadata }, reward: null, done: false, metadata };
const listed = {
	observation: { tools: expect.any(Array), metadata },
	reward: null,
	done: false,
	metadata,
};

function failed(tool_name: string, error_type: string, message: unknown): Json {
	const observation = { tool_name, result: null, error: { error_type, message }, metadata };
	return { type: "observation", data: { observation, reward: null, done: false, metadata } };
}

const FRAMES: [title: string, frame: Json | string, reply: Json][] = [
	["reset without data", { type: "reset" }, { type: "observation", data: begun }],
	["reset with empty data", { type: "reset", data: {} }, { type: "observation", data: begun }],
	[
		"reset with any keywords",
		{ type: "reset", data: { seed: 7, task: { a: 1 } } },
		{ type: "observation", data: begun },
	],
	["state", { type: "state" }, { type: "state", data: FRESH_STATE }],
	["list_tools", { type: "step", data: { type: "list_tools" } }, { type: "observation", data: listed }],
	[
		"list_tools with metadata",
		{ type: "step", data: { type: "list_tools", metadata: {} } },
		{ type: "observation", data: listed },
	],
	["not JSON", "{nope", refused("INVALID_JSON", expect.stringMatching(/^Invalid JSON: /))],
	["an unknown type", { type: "bogus" }, refused("UNKNOWN_TYPE", "Unknown message type: bogus")],
	["no type", {}, refused("UNKNOWN_TYPE", "Unknown message type: ")],
	[
		"a type from the prototype",
		{ type: "toString" },
		refused("UNKNOWN_TYPE", "Unknown message type: toString"),
	],
	["step without data", { type: "step" }, invalid("missing", ["data"], "Field required")],
	[
		"step with data null",
		{ type: "step", data: null },
		invalid("dict_type", ["data"], "Input should be a valid dictionary"),
	],
	[
		"a tool call without a name",
		{ type: "step", data: {} },
		invalid("missing", ["tool_name"], "Field required"),
	],
	[
		"a tool name that is none",
		{ type: "step", data: { tool_name: 5 } },
		invalid("string_type", ["tool_name"], "Input should be a valid string"),
	],
	[
		"an unknown key in the action",
		{ type: "step", data: { tool_name: "get_state", extra: 1 } },
		invalid("extra_forbidden", ["extra"], "Extra inputs are not permitted"),
	],
	[
		"an unknown key in the message",
		{ type: "state", id: 1 },
		invalid("extra_forbidden", ["id"], "Extra inputs are not permitted"),
	],
	[
		"an action of another type",
		{ type: "step", data: { type: "move", tool_name: "x" } },
		invalid("literal_error", ["type"], "Input should be 'call_tool'"),
	],
	[
		"arguments that are no object",
		{ type: "step", data: { tool_name: "x", arguments: [] } },
		invalid("dict_type", ["arguments"], "Input should be a valid dictionary"),
	],
	["an unknown tool", callFrame("nope", {}), failed("nope", "tool_not_found", "Unknown tool: 'nope'")],
	[
		"a missing instruction",
		callFrame("run_rollout", { endpoint: "scripted" }),
		failed(
			"run_rollout",
			"invalid_args",
			expect.stringMatching(/^Error calling tool 'run_rollout': instruction is/),
		),
	],
	[
		"an unknown argument",
		callFrame("run_rollout", { ...task, foo: 1 }),
		failed("run_rollout", "invalid_args", expect.stringContaining('unknown argument "foo"')),
	],
	[
		"a wrong type",
		callFrame("run_rollout", { ...task, verify: "true" }),
		failed("run_rollout", "invalid_args", expect.stringContaining("verify: ")),
	],
	[
		"both spellings",
		callFrame("run_rollout", { ...task, model: "noop", model_key: "vllm://m" }),
		failed("run_rollout", "invalid_args", expect.stringContaining("model_key")),
	],
	[
		"no endpoint",
		callFrame("run_rollout", { instruction: "x" }),
		failed("run_rollout", "invalid_args", expect.stringContaining("pass endpoint")),
	],
	[
		"20 MB of instruction",
		callFrame("run_rollout", { ...task, instruction: "x".repeat(20_000_000) }),
		failed("run_rollout", "invalid_args", expect.stringContaining("longer than 1000000 characters")),
	],
	[
		"JSON-RPC inside a frame",
		{ type: "mcp", data: { jsonrpc: "2.0", method: "nope", id: 1 } },
		{
			type: "mcp",
			data: { jsonrpc: "2.0", id: 1, error: { code: -32601, message: "Method not found: nope", data: null } },
		},
	],
	[
		"broken JSON-RPC inside a frame",
		{ type: "mcp", data: { jsonrpc: "1.0" } },
		{ type: "mcp", data: { jsonrpc: "2.0", id: null, error: expect.objectContaining({ code: -32600 }) } },
	],
];

test.for(FRAMES)(
	"%s is answered field by field, and the socket stays",
	async ([, frame, reply], { client }) => {
		expect(await client.ask(frame)).toEqual(reply);
		expect(await client.ask({ type: "state" })).toMatchObject({ type: "state" });
		expect(client.unread).toBe(0);
	},
);

describe("these end the connection", () => {
	test("close has no reply", async ({ client }) => {
		client.send({ type: "close" });
		expect(await client.closed()).toBe(1000);
		expect(client.unread).toBe(0);
	});

	test.for(["[]", "1", '"reset"', "null"])("%s is no message", async (text, { client }) => {
		const closed = client.closed();
		expect(await client.ask(text)).toMatchObject({ type: "error", data: { code: "SESSION_ERROR" } });
		expect(await closed).toBe(1000);
	});

	test("a binary frame", async ({ client }) => {
		const closed = client.closed();
		client.socket.send(Buffer.from("{}"));
		expect(await client.next()).toMatchObject({ type: "error", data: { code: "SESSION_ERROR" } });
		await closed;
	});

	test("a message beyond every limit, and the server goes on", async ({ client, doors }) => {
		client.send("x".repeat(33 * 1024 * 1024));
		expect(await client.closed()).toBe(1009);
		expect((await fetch(`${doors.url}/health`)).status).toBe(200);
	});
});

test("nothing is said before the client has spoken", async ({ client }) => {
	client.socket.ping();
	await new Promise((resolve) => client.socket.once("pong", resolve));
	expect(client.unread).toBe(0);
});

test("the listed tools have a name, a description and a closed schema", async ({ client }) => {
	const reply = await client.ask({ type: "step", data: { type: "list_tools" } });
	const { tools } = (reply.data as { observation: { tools: Json[] } }).observation;
	expect(tools.map((tool) => tool.name)).toContain("run_rollout");
	for (const tool of tools) {
		expect(Object.keys(tool).sort()).toEqual(["description", "input_schema", "name"]);
		expect(tool.description).toMatch(/./);
		expect(tool.input_schema).toMatchObject({ type: "object", additionalProperties: false });
	}
});

test("a finished rollout carries reward, done and metadata in both places, and its payload once", async ({
	client,
}) => {
	const sent = callFrame("run_rollout", task);
	const reply = await client.ask({ ...sent, data: { ...sent.data, metadata: {} } });
	expect(reply).toEqual({
		type: "observation",
		data: {
			observation: {
				tool_name: "run_rollout",
				result: {
					content: [],
					structured_content: null,
					meta: null,
					data: expect.any(String),
					is_error: false,
				},
				error: null,
				metadata: { rollout_id: expect.any(String), task_id: "t-1", outcome: "completed" },
			},
			reward: 1,
			done: true,
			metadata: { rollout_id: expect.any(String), task_id: "t-1", outcome: "completed" },
		},
	});
	const result = resultOf(reply);
	expect(result).toMatchObject({ task_id: "t-1", reward: 1, mode: "transparent_proxy", error: null });
	expect(await client.ask({ type: "state" })).toMatchObject({
		data: { step_count: 1, rollouts_completed: 1, last_reward: 1, last_task_id: "t-1" },
	});
	expect(await client.ask({ type: "reset", data: { episode_id: "mine" } })).toMatchObject({
		type: "observation",
	});
	expect(await client.ask({ type: "state" })).toEqual({
		type: "state",
		data: { ...FRESH_STATE, episode_id: "mine" },
	});
});

test("short calls work as on every other door", async ({ client }) => {
	const started = resultOf(await client.ask(callFrame("start_rollout", task)));
	const { rollout_id } = started;
	const finalized = await client.ask(callFrame("finalize_rollout", { rollout_id, wait_s: 40 }));
	expect(finalized).toMatchObject({ data: { reward: 1, done: true } });
	expect(await client.ask(callFrame("get_state", { rollout_id }))).toMatchObject({
		data: { reward: 1, done: true },
	});
	expect(resultOf(await client.ask(callFrame("get_state", { rollout_id: "x" })))).toMatchObject({
		status: "unknown",
	});
});
