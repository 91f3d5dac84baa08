import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import type { ConversationEvent } from "../../src/model/conversation.ts";
import { openPolicyServer } from "../../src/policy/server.ts";
import { type Daemon, freePort, startDaemon } from "../fixtures/daemon.ts";
import { say, task } from "../fixtures/script.ts";

/** Agents on a busy machine; nothing here is asserted about time. */
const PATIENCE_MS = 900_000;

let home: string;
let server: Daemon;
let client: Client;
beforeAll(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-talks-"));
	const port = await freePort();
	server = await startDaemon(["serve", "--port", String(port), "--concurrency", "2"], { PADDOCK_HOME: home });
	client = createClient({ baseUrl: `http://127.0.0.1:${port}` });
}, 60_000);
afterAll(async () => {
	await server?.[Symbol.asyncDispose]();
	await rm(home, { recursive: true, force: true });
});

test(
	"a model chosen for a conversation is the one its endpoint is asked for, also when it is opened again",
	async () => {
		await using policies = await openPolicyServer();
		const apiKey = "sk-two-models";
		const cast = (model: string, ...words: string[]) =>
			policies.cast({ policy: "oracle", task: task(), steps: words.map(say) }, { model, apiKey });
		await cast("first", "I am the first.");
		// Each line answers one more message: the first was said by another model.
		await cast("vendor/other", "-", "I am the other.", "I am still the other.");
		const endpoint = { type: "url", baseUrl: policies.baseUrl, model: "first", apiKey } as const;
		const { id } = await client.converse({ endpoint, text: "Who are you?" });
		await answered(id, "I am the first.");
		await client.setModel(id, "vendor/other", "anna");
		await client.say(id, "And now?");
		await answered(id, "I am the other.");
		await client.closeConversation(id);
		await until(id, (event) => event.type === "conversation-end");
		await client.reopenConversation(id, { apiKey });
		await client.say(id, "And later?");
		await answered(id, "I am still the other.");
		await client.closeConversation(id);
	},
	PATIENCE_MS,
);

async function answered(id: string, text: string): Promise<void> {
	const end = await until(id, (event) => event.type === "turn-end" && event.text === text);
	expect(end).toMatchObject({ ended: "answered" });
}

async function until(id: string, found: (event: ConversationEvent) => boolean): Promise<ConversationEvent> {
	for await (const event of client.conversationEvents(id)) if (found(event)) return event;
	throw new Error(`${id} ended without it`);
}
