import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { test as base, expect } from "vitest";
import { loadConfig } from "../../src/config.ts";
import { openPaddock } from "../../src/paddock.ts";
import { serveDoors } from "../openenv/doors.ts";
import { type Json, RawClient } from "../openenv/raw-client.ts";
import { request } from "./caller.ts";

const BURST = 200;
const LIMIT = 50;
const start = { endpoint: "scripted", instruction: "write hello", task_id: "burst" };

/** The real server and its doors over a Paddock in which nobody works. */
const test = base.extend<{ url: string }>({
	// biome-ignore lint/correctness/noEmptyPattern: vitest reads the fixtures' names from it
	url: async ({}, use) => {
		const home = await mkdtemp(join(tmpdir(), "paddock-burst-"));
		const env = {
			PADDOCK_HOME: home,
			PADDOCK_QUEUE_LIMIT: String(LIMIT),
			MAX_CONCURRENT_ENVS: String(BURST),
		};
		{
			await using paddock = await openPaddock(loadConfig(env, home));
			await using doors = await serveDoors(paddock);
			await use(doors.url);
		}
		await rm(home, { recursive: true, force: true });
	},
});

test("of 200 submissions at once over HTTP exactly as many are accepted as may wait", async ({ url }) => {
	const answers = await Promise.all(burst(() => submitOverHttp(url)));
	const refused = answers.filter((answer) => answer.status !== 201);
	expect(answers.length - refused.length).toBe(LIMIT);
	for (const { status, headers, body } of refused) {
		expect({ status, ...body }).toMatchObject({ status: 429, code: "queue_full" });
		expect(headers.get("retry-after")).toMatch(/^\d+$/);
	}
	expect(await waiting(url)).toBe(LIMIT);
});

test("of 200 submissions at once over MCP exactly as many are accepted as may wait", async ({ url }) => {
	const client = new Client({ name: "burst", version: "1" });
	await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
	const answers = await Promise.all(
		burst(() => client.callTool({ name: "start_rollout", arguments: start })),
	);
	await client.close();
	const refused = answers.filter((answer) => answer.isError);
	expect(answers.length - refused.length).toBe(LIMIT);
	for (const answer of refused) {
		expect(answer._meta).toMatchObject({ code: "queue_full" });
		expect(answer.content).toMatchObject([{ type: "text", text: expect.stringContaining("wait") }]);
	}
	expect(await waiting(url)).toBe(LIMIT);
});

test("of 200 submissions at once over OpenEnv exactly as many are accepted as may wait", async ({ url }) => {
	const clients = await Promise.all(burst(() => RawClient.connect(`${url}/ws`)));
	const frame = {
		type: "step",
		data: { type: "call_tool", tool_name: "start_rollout", arguments: start },
	};
	const answers = await Promise.all(clients.map((client) => client.ask(frame)));
	await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
	const refused = answers.map(errorOf).filter((error) => error !== null);
	expect(answers.length - refused.length).toBe(LIMIT);
	for (const error of refused)
		expect(error).toEqual({ error_type: "execution_error", message: expect.stringContaining("wait") });
	expect(await waiting(url)).toBe(LIMIT);
});

function burst<T>(act: () => Promise<T>): Promise<T>[] {
	return Array.from({ length: BURST }, act);
}

async function submitOverHttp(url: string) {
	const reply = await fetch(`${url}/api/v1/rollouts`, {
		method: "POST",
		headers: { "content-type": "application/json" },
		body: JSON.stringify(request()),
	});
	return { status: reply.status, headers: reply.headers, body: (await reply.json()) as Json };
}

function errorOf(reply: Json): Json | null {
	return (reply.data as { observation: { error: Json | null } }).observation.error;
}

async function waiting(url: string): Promise<number> {
	const status = await fetch(`${url}/api/v1/status`);
	return ((await status.json()) as { queueDepth: number }).queueDepth;
}
