import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import type { ConversationEvent } from "../../src/model/conversation.ts";
import type { PolicyStep } from "../../src/policy/policy.ts";
import { createApp } from "../../src/server/app.ts";
import { startConversation } from "../../src/tools/start-conversation.ts";
import type { ToolContext } from "../../src/tools/tools.ts";
import { freePort, startDaemon } from "../fixtures/daemon.ts";
import { openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { openTestPaddock, type TestPaddock } from "../fixtures/paddock.ts";
import { bash, openScriptedModel, say } from "../fixtures/script.ts";
import { clientOf } from "../server/caller.ts";

let station: TestPaddock;
let client: Client;
beforeAll(async () => {
	station = await openTestPaddock({ PADDOCK_HOST_AGENTS: "1" });
	client = clientOf(createApp(station.paddock));
});
afterAll(async () => await station?.[Symbol.asyncDispose]());

describe("a conversation with a kept agent", { timeout: 300_000 }, () => {
	test("takes turns, asks, is interrupted, closed, and goes on in the same session when it is opened again", async () => {
		await using _aide = await addAgent("aide", [
			bash("echo kept > note.txt"),
			say("written"),
			bash("sleep 600"),
			say("after the sleep"),
			bash("cat note.txt"),
			say("still there"),
		]);
		const { id, ...row } = await client.converse({ keptAgent: "aide", text: "Begin." });
		expect(row).toMatchObject({ keptAgent: "aide", sandbox: null, endpoint: { type: "url" } });
		// The agent is set up to ask, whatever the conversation would allow.
		await permit(id, "once");
		await until(id, (event) => event.type === "turn-end" && event.text === "written");
		const note = join(station.home, "agents", "aide", "work", "note.txt");
		expect(readFileSync(note, "utf8")).toBe("kept\n");

		await client.say(id, "Wait.", { by: "anna" });
		await permit(id, "always");
		await until(id, (event) => event.type === "agent-event" && isRunning(event, "sleep 600"));
		await client.interruptConversation(id, { text: "Go on.", by: "anna" });
		await until(id, (event) => event.type === "turn-end" && event.ended === "interrupted");
		await until(id, (event) => event.type === "turn-end" && event.text === "after the sleep");
		expect(await client.closeConversation(id)).toMatchObject({ id });
		const end = await until(id, (event) => event.type === "conversation-end");
		expect(end).toMatchObject({ reason: "asked", failure: null });

		const { sessionId } = await client.conversation(id);
		await client.reopenConversation(id, {});
		await client.say(id, "Look.");
		await permit(id, "once");
		await until(id, (event) => event.type === "turn-end" && event.text === "still there");
		const all = await events(id);
		expect(all.find((event) => event.type === "state-restored")).toMatchObject({ messages: 7 });
		expect(all.filter((event) => event.type === "message-sent").map(({ text }) => text)).toEqual([
			...["Begin.", "Wait.", "Go on.", "Look."],
		]);
		expect(all.map(({ seq }) => seq)).toEqual(all.map((_, index) => index + 1));
		expect(await client.conversation(id)).toMatchObject({ status: "open", sessionId });
		const said = JSON.stringify((await client.conversationMessages(id)).messages);
		for (const word of ["Begin.", "written", "Look.", "still there"]) expect(said).toContain(word);
		await close(id);
		await expect.poll(async () => (await client.agent("aide")).spent.calls).toBeGreaterThanOrEqual(6);
	});

	test("kill -9 of its server in mid-turn: it is started again, told again, and goes on", async () => {
		await using aide = await addAgent(
			"mortal",
			[say("first"), bash("until [ -e gate ]; do sleep 0.05; done"), say("second")],
			"allow",
		);
		const { id } = await client.converse({ keptAgent: "mortal", text: "Begin." });
		await until(id, (event) => event.type === "turn-end" && event.text === "first");
		const { sessionId } = await client.conversation(id);
		await client.say(id, "Work.", { messageId: "work" });
		await until(id, (event) => event.type === "agent-event" && isRunning(event, "-e gate"));
		aide.kill9();
		await writeFile(join(station.home, "agents", "mortal", "work", "gate"), "");
		const end = await until(id, (event) => event.type === "turn-end" && event.text === "second");
		expect(end).toMatchObject({ ended: "answered" });
		expect(await client.conversation(id)).toMatchObject({ status: "open", sessionId });
		const all = await events(id);
		expect(all.filter(({ type }) => type === "message-sent")).toMatchObject([
			{ text: "Begin." },
			{ text: "Work.", id: "work" },
			{ text: "Work.", id: "work", again: true },
		]);
		expect(all.filter(({ type }) => type === "turn-end")).toHaveLength(2);
		await close(id);
	});

	test.for(["stopped", "revoked", "removed"] as const)(
		"an agent that is %s closes it, and says why",
		async (what) => {
			await using _aide = await addAgent(what, [bash("sleep 600")], "allow");
			const { id } = await client.converse({ keptAgent: what, text: "Begin." });
			await until(id, (event) => event.type === "agent-event" && isRunning(event, "sleep 600"));
			if (what === "stopped") await client.stopAgent(what);
			else if (what === "revoked") await client.changeAgent(what, { key: "revoked" });
			else await client.removeAgent(what);
			const end = await until(id, (event) => event.type === "conversation-end");
			expect(end).toMatchObject({ reason: "failed", failure: { code: "agent_stopped", boundary: "agent" } });
			expect(JSON.stringify(end)).toContain(what);
			if (what === "stopped") return;
			await client.reopenConversation(id, {});
			await expect
				.poll(async () => (await client.conversation(id)).status, { timeout: 60_000 })
				.toBe("closed");
			const code = what === "revoked" ? "agent_revoked" : "unknown_agent";
			expect((await client.conversation(id)).failure).toMatchObject({ code });
		},
	);

	test("one that was stopped is started again by a conversation that is opened again", async () => {
		await using _aide = await addAgent("sleeper", [say("first"), say("second")]);
		const { id } = await client.converse({ keptAgent: "sleeper", text: "Begin." });
		await until(id, (event) => event.type === "turn-end");
		await close(id);
		expect(await client.stopAgent("sleeper")).toMatchObject({ keptBy: null });
		await client.reopenConversation(id, {});
		await client.say(id, "Again.");
		await until(id, (event) => event.type === "turn-end" && event.text === "second");
		await close(id);
	});

	test("what it reads of its own keys is not written down", async () => {
		await using _aide = await addAgent(
			"curious",
			[bash("cat ~/.config/opencode/opencode.json"), say("read")],
			"allow",
		);
		const { id } = await client.converse({ keptAgent: "curious", text: "Begin." });
		await until(id, (event) => event.type === "turn-end");
		const { apiKey } = JSON.parse(
			readFileSync(join(station.home, "agents/curious/.config/opencode/opencode.json"), "utf8"),
		).provider.paddock.options;
		const { messages } = await client.conversationMessages(id);
		const written = JSON.stringify([await events(id), messages]);
		expect(written).toContain("[hidden]");
		expect(written).not.toContain(apiKey);
		await close(id);
	});

	test("works in a folder that is named, with one of its own models and no other", async () => {
		await using _aide = await addAgent("choosy", [bash("pwd > here.txt"), say("done")], "allow");
		const folder = await realpath(await mkdtemp(join(tmpdir(), "paddock-folder-")));
		const { id } = await client.converse({ keptAgent: "choosy", text: "Begin.", folder });
		await until(id, (event) => event.type === "turn-end");
		expect(readFileSync(join(folder, "here.txt"), "utf8").trim()).toBe(folder);
		await client.setModel(id, "huge", "anna");
		const note = await until(id, (event) => event.type === "note" && event.text.includes("has the models"));
		expect(note).toMatchObject({ text: expect.stringContaining("scripted-model, large") });
		await client.setModel(id, "large", "anna");
		await until(id, (event) => event.type === "model-set");
		await client.say(id, "Again.");
		// Nobody plays that one: what matters is who was asked.
		await until(id, (event) => event.type === "turn-end" && event.ended === "failed");
		const { messages } = await client.conversationMessages(id);
		expect(messages.at(-1)!.info).toMatchObject({ modelID: "large" });
		await close(id);
		await rm(folder, { recursive: true });
	});

	test("kept by another process of this machine, it is talked to all the same", async () => {
		await using _aide = await addAgent("shared", [say("first"), bash("sleep 600")], "allow");
		await using keeper = keepElsewhere(station.home, "shared");
		await expect.poll(async () => (await client.agent("shared")).baseUrl, { timeout: 60_000 }).not.toBeNull();
		expect((await client.agent("shared")).keptBy?.pid).not.toBe(process.pid);
		const { id } = await client.converse({ keptAgent: "shared", text: "Begin." });
		await until(id, (event) => event.type === "turn-end" && event.text === "first");
		await client.say(id, "Wait.");
		await until(id, (event) => event.type === "agent-event" && isRunning(event, "sleep 600"));
		await keeper[Symbol.asyncDispose]();
		const end = await until(id, (event) => event.type === "conversation-end");
		expect(end).toMatchObject({ reason: "failed", failure: { code: "agent_stopped" } });
	});

	test("is started by the tool of MCP as well, with nothing that only a box could have", async () => {
		await using _aide = await addAgent("tool", [say("first")]);
		const start = startConversation(station.paddock);
		const context: ToolContext = {
			signal: new AbortController().signal,
			whenAbandoned: () => "detach",
			door: "mcp",
		};
		const boxed = start.run({ kept_agent: "tool", setup: ["true"] }, context);
		await expect(boxed).rejects.toMatchObject({ code: "box_needed" });
		const answer = await start.run({ kept_agent: "tool", message: "Begin.", wait_s: 120 }, context);
		expect(answer).toMatchObject({ conversation_id: expect.stringMatching(/^cnv_/) });
		expect(JSON.stringify(answer)).toContain("first");
		await close(String(answer.conversation_id));
	});

	test("kill -9 of the process that keeps it and hosts it: the next takes both up, and the turn goes on", async () => {
		const home = await mkdtemp(join(tmpdir(), "paddock-kept-kill-"));
		await using model = await openScriptedModel([say("first"), bash("sleep 3"), say("second")]);
		const port = await freePort();
		const serve = () =>
			startDaemon(["serve", "--port", String(port)], { PADDOCK_HOME: home, PADDOCK_HOST_AGENTS: "1" });
		const remote = createClient({ baseUrl: `http://127.0.0.1:${port}` });
		await using running = new AsyncDisposableStack();
		running.defer(() => rm(home, { recursive: true }));
		let server = await serve();
		running.defer(() => server[Symbol.asyncDispose]());
		const { endpoint } = model;
		await remote.addAgent({ name: "aide", endpoint, models: [endpoint.model], permission: "allow" });
		const { id } = await remote.converse({ keptAgent: "aide", text: "Begin." });
		await until(id, (event) => event.type === "turn-end" && event.text === "first", remote);
		const { sessionId } = await remote.conversation(id);
		await remote.say(id, "Work.");
		await until(id, (event) => event.type === "agent-event" && isRunning(event, "sleep 3"), remote);
		await server.kill9();
		server = await serve();
		await until(id, (event) => event.type === "state-restored", remote);
		const end = await until(id, (event) => event.type === "turn-end" && event.text === "second", remote);
		expect(end).toMatchObject({ ended: "answered" });
		expect(await remote.conversation(id)).toMatchObject({ status: "open", sessionId });
		await remote.closeConversation(id);
		await until(id, (event) => event.type === "conversation-end", remote);
	});

	test("a turn that ended while nobody hosted it is told by whoever hosts it next, and not repeated", async () => {
		await using model = await openScriptedModel([bash("echo x >> runs; sleep 2"), say("done"), say("next")]);
		await using idle = await openIdlePaddock();
		const { home } = idle.config;
		const { endpoint } = model;
		await idle.addAgent({ name: "aide", endpoint, models: [endpoint.model], permission: "allow" });
		const port = await freePort();
		const serve = () =>
			startDaemon(["serve", "--port", String(port)], { PADDOCK_HOME: home, PADDOCK_HOST_AGENTS: "1" });
		const remote = createClient({ baseUrl: `http://127.0.0.1:${port}` });
		await using running = new AsyncDisposableStack();
		running.use(keepElsewhere(home, "aide"));
		await expect.poll(async () => (await idle.agent("aide"))?.baseUrl, { timeout: 60_000 }).toBeTruthy();
		let server = await serve();
		running.defer(() => server[Symbol.asyncDispose]());
		const { id } = await remote.converse({ keptAgent: "aide", text: "Begin." });
		await until(id, (event) => event.type === "agent-event" && isRunning(event, "sleep 2"), remote);
		await server.kill9();
		await expect.poll(async () => (await idle.agent("aide"))!.spent.calls, { timeout: 60_000 }).toBe(2);
		server = await serve();
		const end = await until(id, (event) => event.type === "turn-end", remote);
		expect(end).toMatchObject({ ended: "answered", text: "done" });
		await remote.say(id, "Go on.");
		await until(id, (event) => event.type === "turn-end" && event.text === "next", remote);
		const all = (await idle.conversationEvents(id, { after: 0, limit: 1_000 }))!.items;
		expect(all.filter((event) => event.type === "message-sent").map(({ text }) => text)).toEqual([
			...["Begin.", "Go on."],
		]);
		expect(readFileSync(join(home, "agents/aide/work/runs"), "utf8")).toBe("x\n");
		await remote.closeConversation(id);
		await until(id, (event) => event.type === "conversation-end", remote);
	});

	test("an agent whose home is on another machine is not here, and another worker may try", async () => {
		await using _aide = await addAgent("remote", [say("first")]);
		await client.startAgent("remote");
		await client.stopAgent("remote");
		await rm(join(station.home, "agents", "remote"), { recursive: true });
		const { id } = await client.converse({ keptAgent: "remote", text: "Begin.", maxAttempts: 2 });
		const end = await until(id, (event) => event.type === "conversation-end");
		expect(end).toMatchObject({ reason: "failed", failure: { code: "agent_not_here", retryable: true } });
		expect(existsSync(join(station.home, "agents", "remote"))).toBe(false);
	});
});

async function addAgent(name: string, steps: PolicyStep[], permission: "ask" | "allow" = "ask") {
	const model = await openScriptedModel(steps);
	const { model: small } = model.endpoint;
	await client.addAgent({ name, endpoint: model.endpoint, models: [small, "large"], permission });
	return {
		kill9() {
			const record = readFileSync(join(station.home, "agents", name, "server.json"), "utf8");
			process.kill(JSON.parse(record).pid, "SIGKILL");
		},
		async [Symbol.asyncDispose]() {
			await client.removeAgent(name).catch(() => {});
			await model[Symbol.asyncDispose]();
		},
	};
}

/** Another process that keeps it. */
function keepElsewhere(home: string, name: string): AsyncDisposable {
	const launcher = fileURLToPath(new URL("../../bin/paddock.mjs", import.meta.url));
	const env = { ...process.env, PADDOCK_HOME: home };
	const keeper = spawn(process.execPath, [launcher, "agent", "start", name], { env, stdio: "ignore" });
	const exited = once(keeper, "exit");
	return {
		async [Symbol.asyncDispose]() {
			keeper.kill("SIGINT");
			await exited;
		},
	};
}

/** Answers the one ask that waits, or comes. */
async function permit(id: string, reply: "once" | "always"): Promise<void> {
	await expect.poll(async () => (await client.pendingAsks(id)).items.length, { timeout: 120_000 }).toBe(1);
	const [ask] = (await client.pendingAsks(id)).items as { requestId: string }[];
	await client.permit(id, ask!.requestId, { reply, by: "anna" });
}

function isRunning({ properties }: { properties: Record<string, unknown> }, command: string): boolean {
	const text = JSON.stringify(properties);
	return text.includes(command) && text.includes('"running"');
}

async function until(
	id: string,
	found: (event: ConversationEvent) => boolean,
	from = client,
): Promise<ConversationEvent> {
	for await (const event of from.conversationEvents(id)) if (found(event)) return event;
	throw new Error(`${id} ended without it: ${JSON.stringify((await events(id)).slice(-8))}`);
}

async function events(id: string): Promise<ConversationEvent[]> {
	return (await station.paddock.conversationEvents(id, { after: 0, limit: 1_000 }))!.items;
}

async function close(id: string): Promise<void> {
	await client.closeConversation(id);
	await expect.poll(async () => (await client.conversation(id)).status, { timeout: 60_000 }).toBe("closed");
}
