import { PassThrough } from "node:stream";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import type { CallToolResult, Progress } from "@modelcontextprotocol/sdk/types.js";
import { test as base, describe, expect } from "vitest";
import { createMcpServer } from "../../src/mcp/server.ts";
import { runStdio } from "../../src/mcp/stdio.ts";
import { RolloutResult } from "../../src/model/result.ts";
import { finalizeRollout } from "../../src/tools/finalize-rollout.ts";
import { startRollout } from "../../src/tools/start-rollout.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { type OpenDoors, serveDoors } from "../openenv/doors.ts";
import { openPlayingPaddock, until } from "../openenv/playing-paddock.ts";

const test = base.extend<{ paddock: IdlePaddock; doors: OpenDoors; client: Client }>({
	// biome-ignore lint/correctness/noEmptyPattern: vitest reads the fixtures' names from it
	paddock: async ({}, use) => {
		await using paddock = await openPlayingPaddock();
		await use(paddock);
	},
	doors: async ({ paddock }, use) => {
		await using doors = await serveDoors(paddock);
		await use(doors);
	},
	client: async ({ doors }, use) => {
		const client = new Client({ name: "test", version: "1" });
		await client.connect(new StreamableHTTPClientTransport(new URL(`${doors.url}/mcp`)));
		await use(client);
		await client.close();
	},
});

const task = { endpoint: "scripted", instruction: "write hello", verify: ["true"], task_id: "t-1" };

test("the official client lists every tool with closed, described arguments", async ({ client }) => {
	const { tools } = await client.listTools();
	expect(tools.map((tool) => tool.name)).toEqual([
		"run_rollout",
		"start_rollout",
		"finalize_rollout",
		"get_state",
		"get_messages",
		"subscribe_events",
		"abort_rollout",
		"start_conversation",
		"send_message",
		"answer",
		"interrupt",
		"close_conversation",
	]);
	for (const tool of tools) {
		expect(tool.inputSchema.additionalProperties).toBe(false);
		for (const [name, schema] of Object.entries(tool.inputSchema.properties ?? {}))
			expect(schema, `${tool.name}.${name}`).toHaveProperty("description");
	}
	expect(tools[0]?.inputSchema.required).toEqual(["instruction"]);
	expect(JSON.stringify(tools)).not.toContain("$ref");
});

test("run_rollout reports growing progress and answers structured and as text", async ({ client }) => {
	const progress: Progress[] = [];
	const result = (await client.callTool({ name: "run_rollout", arguments: task }, undefined, {
		onprogress: (report) => progress.push(report),
		resetTimeoutOnProgress: true,
	})) as CallToolResult;
	expect(result.structuredContent).toMatchObject({
		task_id: "t-1",
		reward: 1,
		outcome: "completed",
		error: null,
	});
	expect(JSON.parse(textOf(result))).toEqual(result.structuredContent);
	const counts = progress.map((report) => report.progress);
	expect(counts).toEqual([...counts].sort((a, b) => a - b));
	expect(new Set(counts).size).toBe(counts.length);
	expect(progress.map((report) => report.message).join("\n")).toContain("agent, 1 model call, 5 tokens");
});

test("each command of setup and verify, and the teardown, is told when it begins: as progress, and to who follows", async ({
	client,
	doors,
}) => {
	const messages: string[] = [];
	const given = { ...task, setup: ["npm ci", "npm run \\\n  build"], verify: ["npm test"] };
	const result = (await client.callTool({ name: "run_rollout", arguments: given }, undefined, {
		onprogress: ({ message }) => messages.push(message ?? ""),
	})) as CallToolResult;
	const spent = "2 setup commands, 1 model call, 5 tokens";
	expect(messages).toEqual([
		"queued",
		"setup",
		"setup 1/2: npm ci",
		"setup 1/2: npm ci, 1 setup command",
		"setup 2/2: npm run \\ build, 1 setup command",
		"setup 2/2: npm run \\ build, 2 setup commands",
		"agent, 2 setup commands",
		`agent, ${spent}`,
		`verify, ${spent}`,
		`verify 1/1: npm test, ${spent}`,
		`verify 1/1: npm test, ${spent}, 1 verify command`,
		`teardown, ${spent}, 1 verify command`,
		`completed, ${spent}, 1 verify command`,
	]);

	const { rollout_id } = result.structuredContent as { rollout_id: string };
	const followed = await fetch(`${doors.url}/api/v1/rollouts/${rollout_id}/events?format=sse`);
	const lines = (await followed.text()).split("\n").filter((line) => line.startsWith("data: "));
	const begun = lines.map((line) => JSON.parse(line.slice(6))).filter(({ type }) => type.endsWith("-start"));
	expect(begun).toMatchObject([
		{ type: "rollout-start" },
		{ type: "phase-start", phase: "setup" },
		{ type: "setup-start", step: 1, of: 2, cmd: "npm ci" },
		{ type: "setup-start", step: 2, of: 2, cmd: given.setup[1] },
		{ type: "phase-start", phase: "agent" },
		{ type: "session-start" },
		{ type: "phase-start", phase: "verify" },
		{ type: "verify-start", step: 1, of: 1, cmd: "npm test" },
		{ type: "teardown-start" },
	]);
});

test("a stored credential is an endpoint for tools, too; one that is not there is refused in words", async ({
	client,
	paddock,
}) => {
	const place = { baseUrl: "http://127.0.0.1:9/v1", model: "m" };
	await paddock.addApiKey({ label: "team", apiKey: "sk-canary-mcp-1", pool: "all", ...place });
	for (const endpoint of ["cred:team", "pool:all"]) {
		const arguments_ = { ...task, endpoint };
		const result = (await client.callTool({ name: "run_rollout", arguments: arguments_ })) as CallToolResult;
		expect(result.structuredContent).toMatchObject({ outcome: "completed", error: null });
		expect(JSON.stringify(result)).not.toContain("canary");
	}
	const wrong = { ...task, endpoint: "cred:nobody" };
	const refused = (await client.callTool({ name: "run_rollout", arguments: wrong })) as CallToolResult;
	expect(textOf(refused)).toContain("there is no credential nobody");
});

test("a cancelled run_rollout ends as aborted", async ({ client, paddock }) => {
	const cancel = new AbortController();
	const started = Promise.withResolvers<void>();
	const call = client.callTool(
		{ name: "run_rollout", arguments: { ...task, instruction: "hang" } },
		undefined,
		{ signal: cancel.signal, onprogress: ({ message }) => message?.startsWith("agent") && started.resolve() },
	);
	call.catch(() => {});
	await started.promise;
	const [rollout] = (await paddock.store.list({}, { limit: 1 })).items;
	cancel.abort("enough");
	await expect(call).rejects.toThrow(/enough/);
	const ended = await until(paddock.store, rollout!.id, ({ status }) => status === "done");
	expect(ended.outcome).toBe("aborted");
	expect(await callTool(client, "get_state", { rollout_id: ended.id })).toMatchObject({ status: "done" });
});

test("start, poll, abort and finalize, each in a short call", async ({ client, paddock }) => {
	const started = await callTool(client, "start_rollout", { ...task, instruction: "hang on" });
	expect(started).toMatchObject({ task_id: "t-1", status: "starting" });
	const rollout_id = String(started.rollout_id);
	await until(paddock.store, rollout_id, ({ calls }) => calls === 1);
	expect(await callTool(client, "get_state", { rollout_id })).toMatchObject({
		rollout_id,
		status: "running",
		serve_session_id: `ses_${rollout_id}`,
		proxy_turns_so_far: 1,
		error: null,
		finished_at: null,
		outcome: null,
	});
	expect(await callTool(client, "get_messages", { rollout_id })).toMatchObject({
		status: "running",
		messages: [],
	});

	const first = await callTool(client, "subscribe_events", { rollout_id });
	expect(first).toMatchObject({
		done: false,
		sse_url: expect.stringMatching(`/api/v1/rollouts/${rollout_id}/events$`),
	});
	const unfinished = await callTool(client, "finalize_rollout", { rollout_id, wait_s: 0 });
	expect(unfinished).toMatchObject({ rollout_id, outcome: null, error: expect.any(String) });

	const next = callTool(client, "subscribe_events", { rollout_id, cursor: first.next_cursor, wait_s: 40 });
	expect(await callTool(client, "abort_rollout", { rollout_id })).toEqual({ rollout_id, aborted: true });
	const rest = await next;
	expect((rest.events as { seq: number }[])[0]?.seq).toBe(Number(first.next_cursor) + 1);
	expect(await callTool(client, "finalize_rollout", { rollout_id })).toMatchObject({
		rollout_id,
		outcome: "aborted",
	});
	expect(await callTool(client, "abort_rollout", { rollout_id })).toEqual({
		rollout_id,
		aborted: false,
		reason: "it has ended already: aborted",
	});
	expect(await callTool(client, "subscribe_events", { rollout_id, cursor: 999 })).toMatchObject({
		events: [],
		done: true,
	});
});

test("an unknown id is a state, not an exception", async ({ client }) => {
	expect(await callTool(client, "get_state", { rollout_id: "rollout_x" })).toMatchObject({
		status: "unknown",
	});
	expect(await callTool(client, "get_messages", { rollout_id: "rollout_x" })).toMatchObject({
		status: "unknown",
	});
	expect(await callTool(client, "abort_rollout", { rollout_id: "rollout_x" })).toMatchObject({
		aborted: false,
	});
});

test("a repeat with the same idempotency key starts nothing", async ({ client, paddock }) => {
	const once = { ...task, idempotency_key: "k" };
	const [first, second] = [
		await callTool(client, "run_rollout", once),
		await callTool(client, "run_rollout", once),
	];
	expect(second.rollout_id).toBe(first.rollout_id);
	expect((await paddock.store.counts()).done).toBe(1);
});

test("a key that comes back with other arguments is refused", async ({ client }) => {
	await callTool(client, "start_rollout", { ...task, idempotency_key: "once" });
	const other = { ...task, instruction: "something else", idempotency_key: "once" };
	const result = (await client.callTool({ name: "start_rollout", arguments: other })) as CallToolResult;
	expect(result).toMatchObject({ isError: true, _meta: { code: "idempotency_conflict" } });
});

test("a repeat is answered while the queue is full", async () => {
	await using paddock = await openIdlePaddock({ queueLimit: 1 });
	const start = startRollout(paddock);
	const { signal } = new AbortController();
	const call = (value: object) => start.run(value, { signal, whenAbandoned: () => "detach", door: "mcp" });
	const once = { ...task, idempotency_key: "k" };
	expect(await call(once)).toEqual(await call(once));
	await expect(call(task)).rejects.toMatchObject({ code: "queue_full" });
});

test("finalize of an unknown id has the full shape, with an error", async ({ client }) => {
	const result = await callTool(client, "finalize_rollout", { rollout_id: "nope" });
	expect(RolloutResult.parse(result)).toMatchObject({
		rollout_id: "nope",
		exit_code: -1,
		reward: null,
		proxy_turns: [],
		error: "no rollout has this id",
	});
});

test("finalize of a rollout that is not over in time has the full shape, exit code -1, and loses nothing", async () => {
	await using paddock = await openIdlePaddock();
	const { signal } = new AbortController();
	const options = { signal, whenAbandoned: () => "detach" as const, door: "mcp" as const };
	const { rollout_id } = await startRollout(paddock).run(task, options);
	const given = { rollout_id, wait_s: 0.05 };
	const result = RolloutResult.parse(await finalizeRollout(paddock).run(given, options));
	expect(result).toMatchObject({ rollout_id, exit_code: -1, reward: null, outcome: null });
	expect(result.error).toContain("not finished");
	expect(await paddock.row(String(rollout_id))).toMatchObject({ status: "queued" });
});

test("a result can be asked to be small, and keeps its shape", async ({ client }) => {
	const whole = await callTool(client, "run_rollout", task);
	const { rollout_id } = whole;
	const bare = await callTool(client, "finalize_rollout", { rollout_id, include: [] });
	expect(RolloutResult.parse(bare)).toMatchObject({ rollout_id, reward: 1, proxy_turns: [], files: {} });
	expect(Object.keys(bare)).toEqual(Object.keys(whole));
	expect(JSON.stringify(bare).length).toBeLessThan(1_000);
	expect(await callTool(client, "run_rollout", { ...task, include: ["logs"] })).toMatchObject({ reward: 1 });
});

test("get_messages says what is wrong in error", async ({ client }) => {
	const { rollout_id } = await callTool(client, "start_rollout", task);
	expect(await callTool(client, "get_messages", { rollout_id })).toMatchObject({ error: null });
	expect(await callTool(client, "get_messages", { rollout_id: "nope" })).toMatchObject({
		status: "unknown",
		error: "no rollout has this id",
	});
});

test("a task id comes back as it was given, and none when none was", async ({ client }) => {
	expect(await callTool(client, "run_rollout", task)).toMatchObject({ task_id: "t-1" });
	expect(await callTool(client, "run_rollout", { ...task, task_id: "" })).toMatchObject({ task_id: "" });
	expect(await callTool(client, "start_rollout", { ...task, task_id: null })).toMatchObject({ task_id: "" });
});

describe("bad input is answered, and the server goes on", () => {
	const table: [string, string, Record<string, unknown>, RegExp][] = [
		["an unknown argument", "run_rollout", { ...task, timeout: 5 }, /unknown argument "timeout"/],
		["a wrong type", "run_rollout", { ...task, setup: "make" }, /^setup: /],
		["both spellings", "start_rollout", { ...task, test_script: "true" }, /verify and test_script/],
		["no instruction", "run_rollout", { endpoint: "scripted" }, /instruction is required/],
		["no endpoint", "run_rollout", { instruction: "x" }, /pass endpoint/],
		[
			"20 MB of instruction",
			"run_rollout",
			{ ...task, instruction: "x".repeat(20_000_000) },
			/longer than 1000000/,
		],
		["an unknown rollout", "subscribe_events", { rollout_id: "nope" }, /not known/],
		["too long a wait", "subscribe_events", { rollout_id: "x", wait_s: 60 }, /^wait_s/],
	];
	test.for(table)("%s", async ([, name, value, message], { client }) => {
		const result = (await client.callTool({ name, arguments: value })) as CallToolResult;
		expect(result.isError).toBe(true);
		expect(textOf(result)).toMatch(message);
		expect(await callTool(client, "get_state", { rollout_id: "x" })).toMatchObject({ status: "unknown" });
	});

	test("an unknown tool is an error of the protocol", async ({ client }) => {
		await expect(client.callTool({ name: "rm", arguments: {} })).rejects.toThrow(
			/Unknown tool: "rm"; known are run/,
		);
	});

	test.for([
		["no JSON", "{", 400, -32700],
		["a lost session", '{"jsonrpc":"2.0","id":1,"method":"tools/list"}', 404, -32001],
	] as const)("%s over HTTP", async ([title, body, status, code], { doors }) => {
		const session = title === "a lost session" ? { "mcp-session-id": "gone" } : {};
		const reply = await fetch(`${doors.url}/mcp`, {
			method: "POST",
			body,
			headers: { ...MCP_HEADERS, ...session },
		});
		expect(reply.status).toBe(status);
		expect(await reply.json()).toMatchObject({ jsonrpc: "2.0", error: { code } });
	});
});

const MCP_HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" };

test("a client without a session is answered all the same", async ({ doors }) => {
	const body = JSON.stringify({
		jsonrpc: "2.0",
		id: 7,
		method: "tools/call",
		params: { name: "run_rollout", arguments: task },
	});
	const reply = await fetch(`${doors.url}/mcp`, { method: "POST", body, headers: MCP_HEADERS });
	expect(await reply.json()).toMatchObject({ id: 7, result: { structuredContent: { reward: 1 } } });
	expect(doors.mcp.sessions).toBe(0);
});

test("a closed session frees its place and aborts what it was waiting for", async ({
	client,
	doors,
	paddock,
}) => {
	const running = Promise.withResolvers<void>();
	const call = client.callTool(
		{ name: "run_rollout", arguments: { ...task, instruction: "hang" } },
		undefined,
		{
			onprogress: ({ message }) => message?.startsWith("agent") && running.resolve(),
		},
	);
	call.catch(() => {});
	await running.promise;
	expect(doors.mcp.sessions).toBe(1);
	await (client.transport as StreamableHTTPClientTransport).terminateSession();
	const [rollout] = (await paddock.store.list({}, { limit: 1 })).items;
	expect((await until(paddock.store, rollout!.id, ({ status }) => status === "done")).outcome).toBe(
		"aborted",
	);
	expect(doors.mcp.sessions).toBe(0);
});

test("over stdio the same tools answer, and the end of input ends the server and its rollout", async ({
	paddock,
}) => {
	const [stdin, stdout] = [new PassThrough(), new PassThrough()];
	const ended = runStdio(paddock, { stdin, stdout });
	const say = (message: object) => stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
	const lines = linesOf(stdout);
	say({
		id: 1,
		method: "initialize",
		params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } },
	});
	expect(await lines.next()).toMatchObject({ value: { id: 1, result: { serverInfo: { name: "paddock" } } } });
	say({ method: "notifications/initialized" });
	say({
		id: 2,
		method: "tools/call",
		params: {
			name: "run_rollout",
			arguments: { ...task, instruction: "hang" },
			_meta: { progressToken: "p" },
		},
	});
	for await (const line of lines) if (JSON.stringify(line).includes('"message":"agent, 1 model call')) break;
	stdin.end();
	await ended;
	const [rollout] = (await paddock.store.list({}, { limit: 1 })).items;
	expect(rollout?.abortRequested).toBe(true);
});

test("a bug of ours is an error of the protocol that tells no details", async ({ paddock }) => {
	const broken: IdlePaddock = { ...paddock, submit: () => Promise.reject(new Error("secret detail")) };
	const [ours, theirs] = InMemoryTransport.createLinkedPair();
	await createMcpServer(broken).connect(ours);
	const client = new Client({ name: "test", version: "1" });
	await client.connect(theirs);
	const call = client.callTool({ name: "start_rollout", arguments: task });
	await expect(call).rejects.toThrow(/bug on our side/);
	await expect(call).rejects.not.toThrow(/secret detail/);
	await client.close();
});

async function callTool(
	client: Client,
	name: string,
	value: Record<string, unknown>,
): Promise<Record<string, unknown>> {
	const result = (await client.callTool({ name, arguments: value })) as CallToolResult;
	if (result.isError) throw new Error(textOf(result));
	return result.structuredContent ?? {};
}

function textOf(result: CallToolResult): string {
	const [first] = result.content;
	return first?.type === "text" ? first.text : "";
}

async function* linesOf(stream: PassThrough): AsyncGenerator<Record<string, unknown>> {
	let rest = "";
	for await (const chunk of stream) {
		const lines = (rest + String(chunk)).split("\n");
		rest = lines.pop() ?? "";
		for (const line of lines) yield JSON.parse(line);
	}
}
