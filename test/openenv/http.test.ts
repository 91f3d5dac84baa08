import { describe, expect } from "vitest";
import { hanging, task, test } from "./fixtures.ts";
import { until } from "./playing-paddock.ts";
import type { Json } from "./raw-client.ts";

const post = (url: string, body?: unknown, init: RequestInit = {}) =>
	fetch(url, {
		method: "POST",
		...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
		headers: { "content-type": "application/json" },
		...init,
	});

const action = (tool_name: string, value: object) => ({ type: "call_tool", tool_name, arguments: value });
const anything = expect.toSatisfy((input) => input !== undefined);

describe("what an environment says of itself", () => {
	test.for<[string, unknown]>([
		["/health", { status: "healthy" }],
		[
			"/metadata",
			{
				name: "paddock",
				description: expect.any(String),
				readme_content: null,
				version: "1.0.0",
				author: null,
				documentation_url: null,
			},
		],
		[
			"/schema",
			{
				action: expect.objectContaining({ type: "object" }),
				observation: expect.objectContaining({ type: "object" }),
				state: expect.objectContaining({ type: "object" }),
			},
		],
		["/state", { episode_id: expect.any(String), step_count: 0 }],
	])("%s", async ([path, body], { doors }) => {
		const reply = await fetch(doors.url + path);
		expect(reply.status).toBe(200);
		expect(await reply.json()).toEqual(body);
	});

	test("all its paths are in the OpenAPI document, whose version begins with 1", async ({ doors }) => {
		const document = (await (await fetch(`${doors.url}/openapi.json`)).json()) as { paths: Json; info: Json };
		expect(Object.keys(document.paths)).toEqual(
			expect.arrayContaining(["/reset", "/step", "/state", "/metadata", "/health", "/schema", "/mcp"]),
		);
		expect(document.info.version).toMatch(/^1\./);
	});
});

const begun = {
	observation: { metadata: expect.any(Object) },
	reward: null,
	done: false,
	metadata: expect.any(Object),
};

describe("POST /reset", () => {
	test.for([undefined, {}, { seed: 3, episode_id: "e", more: [1] }, { seed: null }])(
		"%j",
		async (body, { doors }) => {
			const reply = await post(`${doors.url}/reset`, body);
			expect(reply.status).toBe(200);
			expect(await reply.json()).toEqual(begun);
		},
	);
});

describe("POST /step", () => {
	test("lists tools", async ({ doors }) => {
		const reply = await post(`${doors.url}/step`, { action: { type: "list_tools" } });
		expect(await reply.json()).toMatchObject({
			observation: { tools: expect.any(Array) },
			reward: null,
			done: false,
		});
	});

	test("runs a rollout to its reward", async ({ doors }) => {
		const body = { action: action("run_rollout", task), timeout_s: 30, request_id: "r", anything: 1 };
		const reply = await post(`${doors.url}/step`, body);
		expect(await reply.json()).toMatchObject({
			observation: { tool_name: "run_rollout", error: null },
			reward: 1,
			done: true,
			metadata: { task_id: "t-1", outcome: "completed" },
		});
	});

	test("gives up after timeout_s, and the rollout ends as aborted", async ({ doors, paddock }) => {
		const reply = await post(`${doors.url}/step`, { action: action("run_rollout", hanging), timeout_s: 0.2 });
		expect(await reply.json()).toMatchObject({
			observation: {
				result: null,
				error: { error_type: "timeout", message: "Tool 'run_rollout' timed out after 0.2 seconds" },
			},
			done: false,
		});
		await until(paddock.store, await paddock.working, ({ outcome }) => outcome === "aborted");
	});

	test("a caller that hangs up aborts its rollout", async ({ doors, paddock }) => {
		const hangUp = new AbortController();
		const call = post(
			`${doors.url}/step`,
			{ action: action("run_rollout", hanging) },
			{ signal: hangUp.signal },
		);
		call.catch(() => {});
		const id = await paddock.working;
		hangUp.abort();
		expect((await until(paddock.store, id, ({ status }) => status === "done")).outcome).toBe("aborted");
	});
});

describe("what does not fit is refused in OpenEnv's own shape, and the server goes on", () => {
	test.for<[string, string, unknown, number, unknown]>([
		[
			"seed below zero",
			"/reset",
			{ seed: -1 },
			422,
			[{ type: "greater_than_equal", loc: ["body", "seed"], msg: expect.any(String), input: -1 }],
		],
		[
			"seed as text",
			"/reset",
			{ seed: "1" },
			422,
			[{ type: "float_type", loc: ["body", "seed"], msg: expect.any(String), input: "1" }],
		],
		[
			"a long episode id",
			"/reset",
			{ episode_id: "x".repeat(256) },
			422,
			[expect.objectContaining({ type: "string_too_long", loc: ["body", "episode_id"] })],
		],
		["no JSON", "/reset", "{", 422, [expect.objectContaining({ type: "json_invalid" })]],
		["no body", "/step", undefined, 422, [expect.objectContaining({ loc: ["body"] })]],
		[
			"no action",
			"/step",
			{},
			422,
			[{ type: "missing", loc: ["body", "action"], msg: "Field required", input: anything }],
		],
		[
			"no tool name",
			"/step",
			{ action: {} },
			422,
			[{ type: "missing", loc: ["tool_name"], msg: "Field required", input: anything }],
		],
		[
			"no time",
			"/step",
			{ action: action("x", {}), timeout_s: 0 },
			422,
			[expect.objectContaining({ type: "greater_than", loc: ["body", "timeout_s"] })],
		],
		["too large", "/step", "x".repeat(33 * 1024 * 1024), 413, expect.stringContaining("larger than")],
	])("%s", async ([, path, body, status, detail], { doors }) => {
		const reply = await post(doors.url + path, body);
		expect(reply.status).toBe(status);
		expect(await reply.json()).toEqual({ detail });
		expect((await fetch(`${doors.url}/health`)).status).toBe(200);
	});

	test.for(["/reset", "/step"])("GET %s is not allowed", async (path, { doors }) => {
		const reply = await fetch(doors.url + path);
		expect([reply.status, await reply.json()]).toEqual([405, { detail: "Method Not Allowed" }]);
	});
});
