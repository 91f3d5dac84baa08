import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client as McpClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterAll, beforeAll, expect, type TestContext, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import type { RolloutEvent } from "../../src/model/event.ts";
import { type Daemon, freePort, startDaemon } from "../fixtures/daemon.ts";
import { toolOutputs } from "../fixtures/evidence.ts";
import { requirePart } from "../fixtures/parts.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";

const LAUNCHER = join(import.meta.dirname, "../../bin/paddock.mjs");
const PYTHON = process.env.PADDOCK_PYTHON ?? "python3";
const env = {
	...process.env,
	PYTHONPATH: join(import.meta.dirname, "../../python"),
	PYTHONDONTWRITEBYTECODE: "1",
};

/** Agents on a busy machine; nothing here is asserted about time. */
const PATIENCE_MS = 900_000;

let home: string;
let url: string;
let server: Daemon;
let client: Client;
let mcp: McpClient;
beforeAll(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-steered-"));
	const port = await freePort();
	url = `http://127.0.0.1:${port}`;
	server = await startDaemon(["serve", "--port", String(port), "--concurrency", "2"], { PADDOCK_HOME: home });
	client = createClient({ baseUrl: url });
	mcp = new McpClient({ name: "test", version: "1" });
	await mcp.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
}, 60_000);
afterAll(async () => {
	await mcp?.close();
	await server?.[Symbol.asyncDispose]();
	await rm(home, { recursive: true, force: true });
});

test(
	"a rollout steered over MCP, Python and HTTP trains, masks what people said, and its certificate names them",
	async (context) => {
		requirePython(context);
		await using model = await openScriptedModel([
			bash("echo first"),
			bash("echo second"),
			bash("echo third"),
			say("as you like"),
			say("as you like"),
		]);
		const { rollouts } = await client.submit({
			task: task({ verify: ["true"] }),
			endpoint: model.endpoint,
			agent: { permission: "ask" },
		});
		const { id } = rollouts[0]!;
		const first = await ask(id, 0);
		const answered = await callTool("answer", {
			rollout_id: id,
			request_id: first.requestId,
			reply: "once",
			by: "mia",
		});
		expect(answered).toMatchObject({ id, status: "working" });
		const second = await ask(id, first.seq);
		await python(
			"from paddock import Client",
			`Client("${url}").permit("${id}", "${second.requestId}", "reject", message="leave that", by="paul")`,
		);
		const third = await ask(id, second.seq);
		await client.send(id, "Think of Heidi.", "heidi");
		await until(id, (event) => event.type === "message-sent");
		await client.answerPermission(id, third.requestId, { reply: "once", by: "heidi" });
		expect(await client.wait(id)).toMatchObject({ outcome: "completed", reward: 1 });

		const { summary } = await client.get(id);
		expect(summary!.interventions!.map(({ kind, by }) => `${by}: ${kind}`)).toEqual([
			"mia: approval",
			"paul: denial",
			"heidi: message",
			"heidi: approval",
		]);
		const certificate = await client.certificate(id);
		expect(certificate).toMatchObject({ trainable: true, interventions: { count: 4, firstCall: 2 } });
		expect(certificate.notes.join()).toContain("people intervened 4 times");
		const samples = await Array.fromAsync(client.samples(id));
		const calls = await Array.fromAsync(client.calls(id));
		expect(samples.length).toBeGreaterThan(0);
		// Whatever people said is prompt: what is trained on is what the model said, token for token.
		const trained = samples.flatMap(({ ids, mask }) => ids.filter((_, index) => mask[index] === 1));
		const spoken = calls.flatMap((call) => call.completionIds ?? []);
		expect(trained.toSorted()).toEqual(spoken.toSorted());
		expect(JSON.stringify(calls.at(-1))).toContain("Think of Heidi.");
	},
	PATIENCE_MS,
);

test(
	"started over MCP, answered, permitted and interrupted over HTTP; what was steered is kept, masked or dropped on every surface",
	async (context) => {
		requirePython(context);
		const options = [{ label: "red", description: "" }];
		const questions = [{ question: "Which colour?", header: "Colour", options }];
		await using model = await openScriptedModel([
			bash("echo first"),
			{ calls: [{ tool: "question", args: { questions } }] },
			bash("sleep 300"),
			say("as you like"),
			say("as you like"),
		]);
		const { baseUrl: base_url, apiKey: api_key, model: name } = model.endpoint;
		const started = await callTool("start_rollout", {
			...{ base_url, api_key, model: name, permission: "ask" },
			...{ instruction: "Do what is asked.", verify: ["true"] },
		});
		const id = String(started.rollout_id);
		const first = await ask(id, 0);
		await client.answerPermission(id, first.requestId, { reply: "once", by: "anna" });
		const asked = await until(id, (event) => event.type === "question-ask");
		const { requestId } = asked as { requestId: string };
		await client.answerQuestion(id, requestId, { answers: [["red"]], by: "anna" });
		const sleep = await ask(id, asked.seq);
		await client.answerPermission(id, sleep.requestId, { reply: "once", by: "anna" });
		await until(id, (event) => event.seq > sleep.seq && JSON.stringify(event).includes('"running"'));
		await client.interrupt(id, { text: "Leave that.", by: "bert" });
		expect(await client.wait(id)).toMatchObject({ outcome: "completed", reward: 1 });
		expect((await client.get(id)).summary!.interventions!.map(({ kind, by }) => `${by}: ${kind}`)).toEqual([
			...["anna: approval", "anna: answer", "anna: approval"],
			...["bert: interrupt", "bert: message"],
		]);

		const calls = await Array.fromAsync(client.calls(id));
		expect(toolOutputs((await client.result(id)).proxy_turns.at(-1))[1]).toContain("red");
		const certificate = await client.certificate(id);
		expect(certificate).toMatchObject({ trainable: true, interventions: { count: 5, firstCall: 2 } });
		const spoken = (some: typeof calls) => some.reduce((sum, call) => sum + call.completionIds!.length, 0);
		const unsteered = spoken(calls.filter(({ index }) => index < 2));
		const seen: Record<string, Figures> = {};
		for (const interventions of ["keep", "mask", "drop"] as const) {
			const samples = await Array.fromAsync(client.samples(id, { interventions }));
			const figures = figuresOf(samples.map(({ ids, mask }) => ({ token_ids: ids, loss_mask: mask })));
			seen[interventions] = figures;
			expect(figures.trained).toBe(interventions === "keep" ? spoken(calls) : unsteered);
			const { trainedTokens, interventions: told } = await client.certificate(id, { interventions });
			expect([trainedTokens, told!.handling]).toEqual([figures.trained, interventions]);
			const query = { ids: id, format: "jsonl", interventions } as const;
			const exported = await new Response(await client.export(query)).text();
			expect(figuresOf(toRows(exported))).toEqual(figures);
			const words = ["export", id, "--interventions", interventions];
			const written = await promisify(execFile)(process.execPath, [LAUNCHER, ...words], {
				env: { ...process.env, PADDOCK_HOME: home },
			});
			expect(figuresOf(toRows(written.stdout))).toEqual(figures);
			const said = await python(
				"from paddock import Client",
				`client = Client("${url}")`,
				`rows = list(client.rows("${id}", interventions="${interventions}"))`,
				`certificate = client.certificate("${id}", interventions="${interventions}")`,
				"print(sum(len(row.ids) for row in rows), sum(row.trained_tokens for row in rows), certificate.trained_tokens)",
			);
			expect(said.trim()).toBe(`${figures.tokens} ${figures.trained} ${figures.trained}`);
		}
		expect(seen.mask!.tokens).toBe(seen.keep!.tokens);
		expect(seen.drop!.tokens).toBeLessThan(seen.keep!.tokens);
	},
	PATIENCE_MS,
);

test(
	"a conversation over MCP: started, answered, interrupted, closed",
	async () => {
		await using model = await openScriptedModel([
			bash("echo first"),
			say("done"),
			bash("sleep 300"),
			say("late"),
		]);
		const { baseUrl: base_url, apiKey: api_key, model: name } = model.endpoint;
		const started = await callTool("start_conversation", {
			...{ base_url, api_key, model: name, message: "Begin.", wait_s: 600 },
			permission: "ask",
		});
		expect(started).toMatchObject({
			status: "asking",
			asks: [{ type: "permission-ask", permission: "bash" }],
		});
		const { conversation_id } = started;
		const request_id = (started.asks as { requestId: string }[])[0]!.requestId;
		const first = await callTool("answer", { conversation_id, request_id, reply: "always", wait_s: 600 });
		expect(first).toMatchObject({ status: "answered", text: "done", asks: [] });
		const again = await callTool("send_message", { conversation_id, text: "Sleep.", wait_s: 600 });
		expect(again).toMatchObject({ status: "asking" });
		const sleeping = (again.asks as { requestId: string }[])[0]!.requestId;
		await callTool("answer", { conversation_id, request_id: sleeping, reply: "once", wait_s: 0 });
		const stopped = await callTool("interrupt", { conversation_id, wait_s: 600 });
		expect(stopped).toMatchObject({ status: "interrupted" });
		await callTool("close_conversation", { conversation_id });
		const events = await Array.fromAsync(client.conversationEvents(String(conversation_id)));
		expect(events.at(-1)).toMatchObject({ type: "conversation-end", reason: "asked" });
	},
	PATIENCE_MS,
);

test(
	"a conversation from Python, blocking and with asyncio: asked, closed, opened again",
	async (context) => {
		requirePython(context);
		await using model = await openScriptedModel([bash("echo made > out.txt"), say("first"), say("second")]);
		const { baseUrl, apiKey, model: name } = model.endpoint;
		const said = await python(
			"import asyncio",
			"from paddock import AsyncClient, Client, Endpoint",
			`endpoint = Endpoint.url("${baseUrl}", "${name}", api_key="${apiKey}")`,
			`talk = Client("${url}").converse(endpoint=endpoint, idle_s=600, files={"a.txt": "a"}, deliverables=["out.*"])`,
			`print(talk.ask("Begin.").data["text"])`,
			`print(talk.state().status, talk.pending(), len(talk.messages()), talk.deliverable(talk.deliverables()[0]["path"]))`,
			"talk.close()",
			`print([event for event in talk.events()][-1].data["reason"])`,
			"async def again():",
			`    client = AsyncClient("${url}")`,
			"    same = client.conversation(talk.id)",
			`    await same.reopen(api_key="${apiKey}")`,
			`    print((await same.ask("Go on.")).data["text"])`,
			"    await same.close()",
			"    print([state.id async for state in client.conversations()].count(talk.id))",
			"asyncio.run(again())",
		);
		expect(said.trim().split("\n")).toEqual(["first", "open [] 3 b'made\\n'", "asked", "second", "1"]);
	},
	PATIENCE_MS,
);

async function ask(id: string, after: number): Promise<RolloutEvent & { type: "permission-ask" }> {
	for await (const event of client.events(id, { after })) if (event.type === "permission-ask") return event;
	throw new Error(`${id} ended without asking`);
}

async function until(id: string, found: (event: RolloutEvent) => boolean): Promise<RolloutEvent> {
	for await (const event of client.events(id)) if (found(event)) return event;
	throw new Error(`${id} ended without it`);
}

interface Figures {
	tokens: number;
	trained: number;
}

function figuresOf(rows: { token_ids: number[]; loss_mask: number[] }[]): Figures {
	const trained = rows.flatMap(({ loss_mask }) => loss_mask).reduce((sum, mask) => sum + mask, 0);
	return { tokens: rows.flatMap(({ token_ids }) => token_ids).length, trained };
}

function toRows(lines: string): Parameters<typeof figuresOf>[0] {
	return lines
		.trim()
		.split("\n")
		.map((line) => JSON.parse(line));
}

async function callTool(name: string, given: Record<string, unknown>): Promise<Record<string, unknown>> {
	const result = await mcp.callTool({ name, arguments: given }, undefined, { timeout: 700_000 });
	expect(result.isError, JSON.stringify(result.content)).not.toBe(true);
	return result.structuredContent as Record<string, unknown>;
}

async function python(...lines: string[]): Promise<string> {
	return (await promisify(execFile)(PYTHON, ["-c", lines.join("\n")], { env })).stdout;
}

function requirePython(context: TestContext): void {
	const check = "import sys; sys.exit(sys.version_info < (3, 10))";
	const present = spawnSync(PYTHON, ["-c", check]).status === 0;
	requirePart(context, "Python 3.10 or later", present, "install python3, or name it by PADDOCK_PYTHON");
}
