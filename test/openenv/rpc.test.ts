import { describe, expect } from "vitest";
import { hanging, task, test } from "./fixtures.ts";
import { until } from "./playing-paddock.ts";
import { type Json, RawClient } from "./raw-client.ts";

async function ask(url: string, body: unknown): Promise<Json> {
	const reply = await fetch(`${url}/mcp`, {
		method: "POST",
		body: typeof body === "string" ? body : JSON.stringify(body),
		headers: { "content-type": "application/json", accept: "*/*" },
	});
	expect(reply.status).toBe(200);
	return (await reply.json()) as Json;
}

const call = (method: string, params?: object, id: unknown = 1) => ({
	jsonrpc: "2.0",
	method,
	...(params ? { params } : {}),
	id,
});
const failed = (id: unknown, code: number, message: unknown) => ({
	jsonrpc: "2.0",
	id,
	error: { code, message, data: expect.toSatisfy((data) => data !== undefined) },
});

describe("bare JSON-RPC on /mcp is always answered with 200", () => {
	test.for<[string, unknown, Json]>([
		["nothing in it", {}, failed(null, -32600, expect.stringContaining("Invalid request"))],
		["no JSON", "{", failed(null, -32700, "Parse error")],
		["an array", [], failed(null, -32700, "Parse error")],
		["no body", "", failed(null, -32700, "Parse error")],
		["an unknown key", { ...call("ping"), extra: 1 }, failed(null, -32600, expect.stringContaining("extra"))],
		[
			"params that are a list",
			{ ...call("ping"), params: [] },
			failed(null, -32600, expect.stringContaining("params")),
		],
		["an unknown method", call("nope", {}, "a"), failed("a", -32601, "Method not found: nope")],
		["a call without a name", call("tools/call", {}), failed(1, -32602, "Missing 'name' in params")],
		[
			"an unknown session",
			call("tools/list", { session_id: "zz" }),
			failed(1, -32602, "Unknown session_id: zz"),
		],
		[
			"closing nothing",
			call("openenv/session/close"),
			failed(1, -32602, expect.stringContaining("session_id")),
		],
		[
			"closing an unknown one",
			call("openenv/session/close", { session_id: "zz" }),
			failed(1, -32602, "Unknown session_id: zz"),
		],
		["an unknown tool", call("tools/call", { name: "nope" }), failed(1, -32603, "Unknown tool: 'nope'")],
		[
			"a bad argument",
			call("tools/call", { name: "run_rollout", arguments: { instruction: 1 } }),
			failed(1, -32603, expect.stringContaining("instruction: ")),
		],
		[
			"20 MB of instruction",
			call("tools/call", {
				name: "run_rollout",
				arguments: { ...task, instruction: "x".repeat(20_000_000) },
			}),
			failed(1, -32603, expect.stringContaining("longer than 1000000")),
		],
		["ping", call("ping"), { jsonrpc: "2.0", id: 1, result: {} }],
		[
			"initialize",
			call("initialize", { protocolVersion: "2025-06-18" }),
			{ jsonrpc: "2.0", id: 1, result: expect.objectContaining({ protocolVersion: expect.any(String) }) },
		],
	])("%s", async ([, body, reply], { doors }) => {
		expect(await ask(doors.url, body)).toEqual(reply);
	});

	test("a notification has no answer", async ({ doors }) => {
		const body = JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" });
		const reply = await fetch(`${doors.url}/mcp`, { method: "POST", body });
		expect([reply.status, await reply.text()]).toEqual([202, ""]);
	});
});

test("a session is created, used and closed", async ({ doors }) => {
	const created = await ask(doors.url, call("openenv/session/create"));
	const { session_id } = created.result as { session_id: string };
	const listed = await ask(doors.url, call("tools/list", { session_id }));
	expect((listed.result as { tools: Json[] }).tools[0]).toMatchObject({
		name: "run_rollout",
		title: expect.any(String),
		description: expect.any(String),
		inputSchema: { type: "object" },
	});
	const ran = await ask(doors.url, call("tools/call", { name: "run_rollout", arguments: task, session_id }));
	const { data } = ran.result as { data: string };
	expect(JSON.parse(data)).toMatchObject({ reward: 1 });
	expect(doors.openEnv.pool.active).toBe(1);
	expect(await ask(doors.url, call("openenv/session/close", { session_id }))).toMatchObject({
		result: { session_id, closed: true },
	});
	expect(doors.openEnv.pool.active).toBe(0);
});

test("a stored credential is an endpoint here, too; one that is not there is refused in words", async ({
	doors,
	paddock,
}) => {
	const place = { baseUrl: "http://127.0.0.1:9/v1", model: "m" };
	await paddock.addApiKey({ label: "team", apiKey: "sk-canary-openenv-1", ...place });
	const run = (endpoint: string) =>
		ask(doors.url, call("tools/call", { name: "run_rollout", arguments: { ...task, endpoint } }));
	const ran = await run("cred:team");
	expect(JSON.parse((ran.result as { data: string }).data)).toMatchObject({ reward: 1, error: null });
	expect(JSON.stringify(ran)).not.toContain("canary");
	expect(JSON.stringify(await run("cred:nobody"))).toContain("there is no credential nobody");
});

describe("a socket that names a session", () => {
	const create = async (url: string) =>
		((await ask(url, call("openenv/session/create"))).result as { session_id: string }).session_id;

	test("shares it, and leaves it to be closed", async ({ doors }) => {
		const session_id = await create(doors.url);
		await using client = await RawClient.connect(`${doors.url}/ws?session_id=${session_id}`);
		await ask(doors.url, call("tools/call", { name: "run_rollout", arguments: task, session_id }));
		expect(await client.ask({ type: "state" })).toMatchObject({ data: { rollouts_completed: 1 } });
		const closed = client.closed();
		client.send({ type: "close" });
		await closed;
		expect(doors.openEnv.pool.active).toBe(1);
		await ask(doors.url, call("openenv/session/close", { session_id }));
		expect(doors.openEnv.pool.active).toBe(0);
	});

	test("takes it along when it vanishes", async ({ doors }) => {
		await using client = await RawClient.connect(`${doors.url}/ws?session_id=${await create(doors.url)}`);
		await client.ask({ type: "reset" });
		client.socket.terminate();
		await expect.poll(() => doors.openEnv.pool.active).toBe(0);
	});

	test("hears that there is no such session", async ({ doors }) => {
		await using client = await RawClient.connect(`${doors.url}/ws?session_id=zz`);
		expect(await client.ask({ type: "state" })).toEqual({
			type: "error",
			data: { code: "SESSION_ERROR", message: "Unknown session_id: zz" },
		});
	});
});

test("inside a frame, the socket's own session is the session", async ({ client }) => {
	const wrap = (data: Json) => ({ type: "mcp", data });
	const created = await client.ask(wrap(call("openenv/session/create")));
	const { session_id } = (created.data as { result: { session_id: string } }).result;
	expect(await client.ask(wrap(call("openenv/session/close", { session_id })))).toMatchObject({
		type: "mcp",
		data: { error: { code: -32600 } },
	});
	expect(await client.ask(wrap(call("tools/list", { session_id })))).toMatchObject({ data: { result: {} } });
	expect(await client.ask({ type: "state" })).toMatchObject({ type: "state" });
});

describe("the socket on /mcp", () => {
	test("answers several calls at once, each by its id", async ({ doors, paddock }) => {
		await using client = await RawClient.connect(`${doors.url}/mcp`);
		client.send(call("tools/call", { name: "run_rollout", arguments: hanging }, 1));
		expect(await client.ask(call("ping", {}, 2))).toEqual({ jsonrpc: "2.0", id: 2, result: {} });
		expect(await client.ask("{")).toMatchObject({ error: { code: -32700 } });
		await paddock.abort({ id: await paddock.working });
		expect(await client.next()).toMatchObject({
			id: 1,
			result: { data: expect.stringContaining("aborted") },
		});
	});

	test("a client that vanishes aborts its rollout", async ({ doors, paddock }) => {
		await using client = await RawClient.connect(`${doors.url}/mcp`);
		client.send(call("tools/call", { name: "run_rollout", arguments: hanging }, 1));
		const id = await paddock.working;
		client.socket.terminate();
		expect((await until(paddock.store, id, ({ status }) => status === "done")).outcome).toBe("aborted");
	});
});
