import { describe, expect } from "vitest";
import { createApp } from "../../src/server/app.ts";
import { test } from "../openenv/fixtures.ts";
import { RawClient } from "../openenv/raw-client.ts";
import { postJson, problemOf, request } from "./caller.ts";

/** Small to send, large to hold: each was minutes and gigabytes once it had been parsed. */
const TOO_MUCH: [what: string, body: string, complaint: string][] = [
	["500,000 empty objects", `{"task":{"files":[${Array(500_000).fill("{}").join()}]}}`, "400000 values"],
	["500,000 short texts", `{"task":{"verify":[${Array(500_000).fill('"a"').join()}]}}`, "400000 values"],
	["450,000 names", `{${Array.from({ length: 450_000 }, (_, at) => `"k${at}":1`).join()}}`, "400000 values"],
	["lists 100,000 deep", `{"task":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, "100 levels"],
];

describe.for(TOO_MUCH)("%s", ([, body, complaint]) => {
	test.for(["/api/v1/rollouts", "/api/v1/batches", "/api/v1/conversations"])(
		"are not parsed at %s",
		async (path, { doors }) => {
			expect(await problemOf(post(doors.url + path, body))).toMatchObject({
				status: 413,
				code: "body_too_large",
				detail: expect.stringContaining(complaint),
			});
		},
	);

	test.for(["/reset", "/step"])("are not parsed at OpenEnv's %s", async (path, { doors }) => {
		const reply = await post(doors.url + path, body);
		expect(reply.status).toBe(413);
		expect(await reply.json()).toEqual({ detail: expect.stringContaining(complaint) });
	});

	test("are not parsed at /mcp, whoever asks", async ({ doors }) => {
		const mcp = await post(`${doors.url}/mcp`, body, { accept: "application/json, text/event-stream" });
		expect(mcp.status).toBe(413);
		expect(await mcp.json()).toMatchObject({
			error: { code: -32000, message: expect.stringContaining(complaint) },
		});
		const bare = await post(`${doors.url}/mcp`, body);
		expect(await bare.json()).toMatchObject({
			error: { code: -32600, message: expect.stringContaining(complaint) },
		});
	});

	test("are not parsed on the sockets, which go on", async ({ doors, client }) => {
		expect(await client.ask(body)).toEqual({
			type: "error",
			data: { code: "VALIDATION_ERROR", message: expect.stringContaining(complaint), errors: [] },
		});
		expect(await client.ask({ type: "state" })).toMatchObject({ type: "state" });
		await client[Symbol.asyncDispose]();
		await using rpc = await RawClient.connect(`${doors.url}/mcp`);
		expect(await rpc.ask(body)).toMatchObject({
			error: { code: -32600, message: expect.stringContaining(complaint) },
		});
		expect(await rpc.ask({ jsonrpc: "2.0", id: 1, method: "ping" })).toMatchObject({ result: {} });
	});
});

test("a task of 20,000 files is taken", async ({ paddock }) => {
	const files = Array.from({ length: 20_000 }, (_, at) => ({
		path: `src/${at}.ts`,
		content: 'export const text = "{[,]}";\n',
		encoding: "utf8",
		executable: false,
	}));
	const { task, ...rest } = request();
	const reply = await postJson(createApp(paddock), "/api/v1/rollouts", { ...rest, task: { ...task, files } });
	expect(reply.status).toBe(201);
});

test.for(["setup", "verify", "artifacts"])(
	"of too many entries of %s only the number is told",
	async (list, { paddock }) => {
		const { task, ...rest } = request();
		const body = { ...rest, task: { ...task, [list]: Array(1_001).fill(1) } };
		const problem = await problemOf(postJson(createApp(paddock), "/api/v1/rollouts", body));
		expect(problem).toMatchObject({ status: 422, code: "invalid_request" });
		expect(problem.issues).toEqual([{ path: `body.task.${list}`, message: expect.stringContaining("1000") }]);
	},
);

function post(url: string, body: string, headers: Record<string, string> = {}): Promise<Response> {
	return fetch(url, { method: "POST", body, headers: { "content-type": "application/json", ...headers } });
}
