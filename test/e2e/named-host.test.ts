import { join } from "node:path";
import { Client as McpClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { Hosts } from "../../src/host/hosts.ts";
import type { RolloutResult } from "../../src/model/result.ts";
import { Paddock } from "../cli/paddock.ts";
import { hasTmux, Terminal } from "../cli/terminal.ts";
import { type Daemon, freePort, startDaemon } from "../fixtures/daemon.ts";
import { type NamedHost, startNamedHost } from "../fixtures/named-host.ts";
import { requirePart } from "../fixtures/parts.ts";
import { bash, openScriptedModel, say } from "../fixtures/script.ts";
import { missingForSshd } from "../fixtures/sshd.ts";

const LONG = 180_000;
const EXAMPLE = "examples/tasks/fizzbuzz";
const missing = missingForSshd();

let big: NamedHost;
let server: Daemon;
let url: string;
beforeAll(async () => {
	if (missing !== null) return;
	big = await startNamedHost();
	await new Hosts(big.home).add(big.record);
	const port = await freePort();
	url = `http://127.0.0.1:${port}`;
	server = await startDaemon(["serve", "--port", String(port)], { PADDOCK_HOME: big.home });
}, LONG);
afterAll(async () => {
	await server?.[Symbol.asyncDispose]();
	await big?.[Symbol.asyncDispose]();
});
beforeEach((context) => requirePart(context, "sshd", missing === null, missing ?? ""));

test("paddock run --host: the agent works on the named machine, started here or by a server", {
	timeout: 2 * LONG,
}, async () => {
	await using paddock = await Paddock.open();
	await new Hosts(join(paddock.home, "data")).add(big.record);
	for (const where of [[], ["--server", url]]) {
		const { code, stdout, stderr } = await paddock.run([
			...["run", EXAMPLE, "--policy", "oracle", "--host", "big", "--json"],
			...where,
		]);
		expect(code, stderr).toBe(0);
		expect(JSON.parse(stdout) as RolloutResult).toMatchObject({ reward: 1 });
	}
	const { items } = await createClient({ baseUrl: url }).list();
	expect(items).toMatchObject([{ sandbox: "ssh:big" }]);
	const { summary } = await createClient({ baseUrl: url }).get(items[0]!.id);
	expect(summary?.box).toMatchObject({ backend: "ssh", host: "127.0.0.1", isolation: "bubblewrap" });
	const unknown = await paddock.run([
		"run",
		EXAMPLE,
		"--policy",
		"oracle",
		"--host",
		"nobody",
		"--server",
		url,
	]);
	expect(unknown).toMatchObject({ code: 2, stderr: expect.stringContaining("no host nobody") });
});

test("a conversation on the named machine takes turns, and its files stay there between them", {
	timeout: LONG,
}, async () => {
	await using model = await openScriptedModel([
		...[bash("echo kept > note.txt"), say("first")],
		...[bash("cat note.txt"), say("second")],
	]);
	const client = createClient({ baseUrl: url });
	const { id } = await client.converse({ endpoint: model.endpoint, sandbox: "ssh:big", text: "Begin." });
	const turns = ["first", "second"];
	const outputs: string[] = [];
	for await (const event of client.conversationEvents(id)) {
		if (event.type === "agent-event") outputs.push(JSON.stringify(event.properties));
		if (event.type !== "turn-end") continue;
		expect(event.text).toBe(turns.shift());
		if (turns.length === 0) break;
		await client.say(id, "Look.");
	}
	expect(outputs.join("\n")).toContain('"output":"kept\\n"');
	await client.closeConversation(id);
});

test("over MCP the sandbox ssh:<name> is the named machine, for rollouts and conversations", {
	timeout: LONG,
}, async () => {
	const client = new McpClient({ name: "test", version: "1" });
	await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
	const call = (name: string, args: object) =>
		client.callTool({ name, arguments: { ...args } }, undefined, { timeout: LONG });
	const rollout = await call("run_rollout", {
		...{ endpoint: "scripted", instruction: "write hello", sandbox: "ssh:big" },
		...{ solution: ["echo hello > hello.txt"], verify: ["grep -q hello hello.txt"] },
	});
	expect(rollout.structuredContent).toMatchObject({ reward: 1, outcome: "completed" });
	const unknown = await call("run_rollout", {
		...{ endpoint: "scripted", instruction: "write hello", sandbox: "ssh:nobody", verify: ["true"] },
	});
	expect(JSON.stringify(unknown)).toContain("no host nobody");
	await using model = await openScriptedModel([bash("echo there"), say("done")]);
	const { baseUrl: base_url, apiKey: api_key, model: name } = model.endpoint;
	const talk = await call("start_conversation", {
		...{
			base_url,
			api_key,
			model: name,
			message: "Begin.",
			wait_s: 600,
			sandbox: "ssh:big",
			permission: "allow",
		},
	});
	expect(talk.structuredContent).toMatchObject({ status: "answered", text: "done" });
	const { conversation_id } = talk.structuredContent as { conversation_id: string };
	expect(await createClient({ baseUrl: url }).conversation(conversation_id)).toMatchObject({
		sandbox: "ssh:big",
	});
	await call("close_conversation", { conversation_id });
	await client.close();
});

test("paddock chat --host: the terminal talks to an agent on the named machine", {
	timeout: LONG,
}, async (context) => {
	requirePart(context, "tmux", hasTmux(), "apt-get install tmux");
	await using model = await openScriptedModel([bash("echo box is $HOME"), say("That is all.")]);
	const { baseUrl, apiKey } = model.endpoint;
	const env = `NO_COLOR=1 KEY=${apiKey} PADDOCK_HOME=${big.home}`;
	const chat = `chat --host big --base-url ${baseUrl} --model scripted-model --api-key-env KEY --permission allow --server ${url}`;
	const program = `${process.execPath} ${join(import.meta.dirname, "../../bin/paddock.mjs")}`;
	using terminal = new Terminal(`${env} ${program} ${chat}; echo left with $?`, { columns: 100, rows: 40 });
	const screen = expect.poll(() => terminal.lines().join("\n"), { timeout: LONG, interval: 100 });
	await screen.toMatch(/^> ?$/m);
	terminal.type("Where are you?");
	await screen.toMatch(/✓ bash {2}echo box is[\s\S]*That is all\./);
	const { items } = await createClient({ baseUrl: url }).conversations();
	expect(items[0]).toMatchObject({ sandbox: "ssh:big", status: "open" });
	terminal.type("/quit");
	await screen.toMatch(/left with 0/);
});
