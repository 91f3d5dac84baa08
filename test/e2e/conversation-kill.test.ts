import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import type { ConversationEvent } from "../../src/model/conversation.ts";
import { type Daemon, freePort, startDaemon } from "../fixtures/daemon.ts";
import { boxesOf, remainsOf } from "../fixtures/evidence.ts";
import { requirePostgres, startPostgres } from "../fixtures/postgres.ts";
import { bash, openScriptedModel, say } from "../fixtures/script.ts";

const STEPS = [
	bash("echo kept > note.txt"),
	say("first"),
	bash("cat note.txt; sleep 4"),
	say("second"),
	say("third"),
];

let home: string;
beforeEach(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-talk-"));
});
afterEach(async () => await rm(home, { recursive: true, force: true }));

describe("a conversation survives", () => {
	test("kill -9 of its worker on PostgreSQL: another opens it with its history, also after it was closed", async (context) => {
		requirePostgres(context);
		await using model = await openScriptedModel(STEPS);
		await using postgres = await startPostgres();
		const port = await freePort();
		const env = { PADDOCK_HOME: home, PADDOCK_DATABASE_URL: postgres.url };
		await using _server = await startDaemon(["serve", "--port", String(port), "--no-worker"], env);
		const client = createClient({ baseUrl: `http://127.0.0.1:${port}` });
		const start = () => startDaemon(["worker", "--concurrency", "1"], env);
		await using workers = new Pair(await start(), await start());

		const { id } = await client.converse({ endpoint: model.endpoint, text: "Begin." });
		const begun = await until(client, id, (event) => event.type === "conversation-start");
		await until(client, id, (event) => event.type === "state-saved");
		const { sessionId } = await client.conversation(id);
		await client.say(id, "Look.", { messageId: "look" });
		await until(client, id, (event) => event.type === "agent-event" && runs(event, "cat note.txt"));
		const victim = workers.hosting(begun);
		const boxes = await boxesOf(victim.pid);
		await victim.kill9();
		await until(client, id, (event) => event.type === "turn-end" && event.text === "second");
		const events = await pages(client, id);
		expect(events.filter((event) => event.type === "conversation-start").length).toBeGreaterThan(1);
		expect(events.filter((event) => event.type === "message-sent")).toMatchObject([
			{ text: "Begin." },
			{ text: "Look.", id: "look" },
			{ text: "Look.", id: "look", again: true },
		]);
		expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
		expect((await client.conversation(id)).sessionId).toBe(sessionId);
		expect(said((await client.conversationMessages(id)).messages)).toEqual([
			"Begin.",
			"first",
			"Look.",
			"second",
		]);
		// The living look for what the dead left behind once a minute.
		await expect.poll(() => remainsOf(boxes), { timeout: 180_000, interval: 500 }).toEqual([]);

		await client.closeConversation(id);
		await until(client, id, (event) => event.type === "conversation-end");
		await expect(client.say(id, "Anybody?")).rejects.toMatchObject({
			status: 409,
			code: "conversation_closed",
		});
		await client.reopenConversation(id, { apiKey: model.endpoint.apiKey });
		await client.say(id, "And now?");
		await until(client, id, (event) => event.type === "turn-end" && event.text === "third");
		await client.closeConversation(id);
	}, 900_000);

	test("a restart of the server, and kill -9 of the agent's own server in mid-turn, with nothing left behind", async () => {
		await using model = await openScriptedModel(STEPS);
		const port = await freePort();
		const serve = () =>
			startDaemon(["serve", "--port", String(port), "--concurrency", "1"], { PADDOCK_HOME: home });
		const client = createClient({ baseUrl: `http://127.0.0.1:${port}` });
		await using running = new AsyncDisposableStack();
		let server = await serve();
		running.defer(() => server[Symbol.asyncDispose]());
		const { id } = await client.converse({ endpoint: model.endpoint, text: "Begin." });
		await until(client, id, (event) => event.type === "state-saved");
		await server.kill9();
		server = await serve();
		await until(client, id, (event) => event.type === "state-restored");
		await client.say(id, "Look.");
		await until(client, id, (event) => event.type === "agent-event" && runs(event, "cat note.txt"));
		const boxes = await boxesOf(server.pid);
		process.kill(await agentIn(boxes), "SIGKILL");
		await until(client, id, (event) => event.type === "attempt-failed");
		await until(client, id, (event) => event.type === "turn-end" && event.text === "second");
		expect(await remainsOf(boxes)).toEqual([]);
		await client.closeConversation(id);
		const last = (await Array.fromAsync(client.conversationEvents(id))).at(-1);
		expect(last).toMatchObject({ type: "conversation-end", reason: "asked" });
	}, 900_000);
});

/** Two workers, one of which is to be killed. */
class Pair implements AsyncDisposable {
	readonly #workers: Daemon[];

	constructor(...workers: Daemon[]) {
		this.#workers = workers;
	}

	hosting(begun: ConversationEvent): Daemon {
		const name = begun.type === "conversation-start" ? begun.worker : "";
		return this.#workers.find(({ pid }) => name.endsWith(`-${pid}`))!;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		for (const worker of this.#workers) await worker[Symbol.asyncDispose]();
	}
}

async function until(
	client: Client,
	id: string,
	found: (event: ConversationEvent) => boolean,
): Promise<ConversationEvent> {
	for await (const event of client.conversationEvents(id)) if (found(event)) return event;
	throw new Error(`${id} ended without it`);
}

async function pages(client: Client, id: string): Promise<ConversationEvent[]> {
	const { lastSeq } = await client.conversation(id);
	const events: ConversationEvent[] = [];
	for await (const event of client.conversationEvents(id)) {
		events.push(event);
		if (event.seq >= lastSeq) break;
	}
	return events;
}

function runs(event: ConversationEvent, command: string): boolean {
	const text = JSON.stringify(event);
	return text.includes('"running"') && text.includes(command);
}

function said(messages: { parts: Record<string, unknown>[] }[]): unknown[] {
	return messages.flatMap(({ parts }) =>
		parts.filter((part) => part.type === "text").map((part) => part.text),
	);
}

/** The pid of the agent's server in one of these boxes, as this machine numbers it. */
async function agentIn(boxes: string[]): Promise<number> {
	for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
		const read = (file: string) => readFile(`/proc/${pid}/${file}`, "latin1").catch(() => "");
		if (!(await read("cmdline")).includes("opencode\0serve")) continue;
		const cgroup = await read("cgroup");
		if (boxes.some((id) => cgroup.includes(id))) return Number(pid);
	}
	throw new Error("no agent runs in these boxes");
}
