import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import type { ConversationEvent } from "../../src/model/conversation.ts";
import { openPolicyServer } from "../../src/policy/server.ts";
import { freePort, startDaemon } from "../fixtures/daemon.ts";
import { missingForEngine, startEngine } from "../fixtures/docker-engine.ts";
import { requirePart } from "../fixtures/parts.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";
import { makeOwnFolder } from "../sandbox/own-folder.ts";

/** Agents on a busy machine; nothing here is asserted about time. */
const PATIENCE_MS = 900_000;

let home: string;
let server: Awaited<ReturnType<typeof openServer>>;
let client: Client;
beforeAll(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-talks-"));
	server = await openServer({ PADDOCK_HOME: home });
	({ client } = server);
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

test(
	"commands before and after run in the agent's own walled box, and how they ended is told",
	async () => {
		await using model = await openScriptedModel([bash("cat hook; echo left > left"), say("done")]);
		const { id } = await client.converse({
			...{ endpoint: model.endpoint, text: "Begin.", sandbox: "local" },
			before: [`echo given > hook; ls -d ${home} || true`],
			after: ["cat left; exit 3"],
		});
		await answered(id, "done");
		await client.closeConversation(id);
		const events = await Array.fromAsync(client.conversationEvents(id));
		const results = events.flatMap((event) =>
			event.type === "setup-end" || event.type === "after-end" ? [event.result] : [],
		);
		// What the machine has beside the box cannot be seen from it.
		expect(results).toMatchObject([
			{ exitCode: 0, stdout: "" },
			{ exitCode: 3, stdout: "left\n" },
		]);
		expect(JSON.stringify(await client.conversationMessages(id))).toContain("given\\n");
		expect(events.at(-1)).toMatchObject({ type: "conversation-end", reason: "asked", failure: null });
	},
	PATIENCE_MS,
);

test(
	"a command before that fails closes the conversation: the agent never was, and it says why",
	async () => {
		await using model = await openScriptedModel([say("done")]);
		const { id } = await client.converse({
			...{ endpoint: model.endpoint, text: "Begin.", sandbox: "local" },
			before: ["echo not here >&2; exit 7"],
			after: ["true"],
		});
		const events = await Array.fromAsync(client.conversationEvents(id));
		expect(events.at(-1)).toMatchObject({
			...{ type: "conversation-end", reason: "failed" },
			failure: { boundary: "task", code: "setup_failed" },
		});
		expect(await client.conversation(id)).toMatchObject({ status: "closed", closed: "failed", calls: 0 });
		const told = events.map(({ type }) => type);
		for (const type of ["session-start", "message-sent", "after-start"] as const)
			expect(told).not.toContain(type);
	},
	PATIENCE_MS,
);

test.for(["local", "docker"] as const)(
	"it works in a folder that the operator allowed, as its owner, and in no other: %s",
	{ timeout: PATIENCE_MS },
	async (sandbox, context) => {
		if (sandbox === "docker")
			requirePart(context, "docker", missingForEngine("docker") === null, missingForEngine("docker") ?? "");
		await using stack = new AsyncDisposableStack();
		const own = stack.use(await makeOwnFolder());
		const engine = sandbox === "docker" ? stack.use(await startEngine("docker")) : { env: {} };
		const env = { ...engine.env, PADDOCK_HOME: join(home, sandbox), PADDOCK_FOLDERS: own.root };
		const there = stack.use(await openServer(env));
		await using model = await openScriptedModel([
			bash("cat given; echo made > made; cat way-out ../secret"),
			say("done"),
		]);
		const { id } = await there.client.converse({
			...{ endpoint: model.endpoint, text: "Begin.", sandbox, folder: own.folder },
		});
		await answered(id, "done", there.client);
		expect(await readFile(join(own.folder, "made"), "utf8")).toBe("made\n");
		expect((await stat(join(own.folder, "made"))).uid).toBe((await stat(own.folder)).uid);
		const said = JSON.stringify(await there.client.conversationMessages(id));
		expect(said).toContain("given");
		expect(said).not.toContain("out of reach");
		await there.client.closeConversation(id);
		await until(id, (event) => event.type === "conversation-end", there.client);
		const outside = there.client.converse({ endpoint: model.endpoint, sandbox, folder: "/etc" });
		await expect(outside).rejects.toMatchObject({ status: 422, code: "folder_refused" });
	},
);

async function openServer(env: Record<string, string>): Promise<{ client: Client } & AsyncDisposable> {
	const port = await freePort();
	const daemon = await startDaemon(["serve", "--port", String(port), "--concurrency", "2"], env);
	return {
		client: createClient({ baseUrl: `http://127.0.0.1:${port}` }),
		[Symbol.asyncDispose]: () => daemon[Symbol.asyncDispose](),
	};
}

async function answered(id: string, text: string, of = client): Promise<void> {
	const end = await until(id, (event) => event.type === "turn-end" && event.text === text, of);
	expect(end).toMatchObject({ ended: "answered" });
}

async function until(
	id: string,
	found: (event: ConversationEvent) => boolean,
	of = client,
): Promise<ConversationEvent> {
	for await (const event of of.conversationEvents(id)) if (found(event)) return event;
	throw new Error(`${id} ended without it`);
}
