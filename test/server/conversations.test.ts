import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import { createApp } from "../../src/server/app.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { clientOf, postJson, problemOf, request } from "./caller.ts";

const endpoint = { type: "policy", policy: "noop" } as const;
const PATH = "/api/v1/conversations";

let paddock: IdlePaddock;
let app: ReturnType<typeof createApp>;
let client: Client;
beforeAll(async () => {
	paddock = await openIdlePaddock();
	app = createApp(paddock);
	client = clientOf(app);
});
afterAll(() => paddock[Symbol.asyncDispose]());

test("a conversation is stored and queued when 201 comes back, once for one key, and is no rollout", async () => {
	const body = { endpoint, text: "Begin.", labels: { of: "mine" }, idempotencyKey: "one" };
	const first = await client.converse(body);
	expect(first).toMatchObject({ status: "queued", closed: null, attempt: 0, priority: 10, lastSeq: 1 });
	expect((await client.converse(body)).id).toBe(first.id);
	await expect(client.converse({ ...body, text: "Other." })).rejects.toMatchObject({
		code: "idempotency_conflict",
	});
	expect((await client.conversations({ label: "of=mine" })).items.map(({ id }) => id)).toEqual([first.id]);
	expect((await client.conversations({ status: "open" })).items).toEqual([]);
	expect((await client.list()).items.map(({ id }) => id)).not.toContain(first.id);
	await expect(client.get(first.id)).rejects.toMatchObject({ status: 404 });
	await expect(client.abort(first.id)).rejects.toMatchObject({ status: 404 });
	await expect(client.send(first.id, "Hello?")).rejects.toMatchObject({ status: 404 });
	expect(await client.conversation(first.id)).toMatchObject({ status: "queued" });
});

test("a rollout is no conversation", async () => {
	const { rollouts } = await client.submit(request());
	const { id } = rollouts[0]!;
	for (const call of [
		() => client.conversation(id),
		() => client.conversationMessages(id),
		() => client.pendingAsks(id),
		() => client.say(id, "Hello?"),
		() => client.closeConversation(id),
		() => client.reopenConversation(id),
		() => client.setModel(id, "a/b"),
		() => client.deliverables(id),
		() => Array.fromAsync(client.conversationEvents(id)),
	])
		await expect(call()).rejects.toMatchObject({ status: 404, code: "not_found" });
});

test("closed while it waits it ends at once, hears nothing, and can be opened again", async () => {
	const { id } = await client.converse({ endpoint });
	expect(await client.closeConversation(id)).toMatchObject({ status: "closed", closed: "asked" });
	const events = await Array.fromAsync(client.conversationEvents(id));
	expect(events.map(({ conversationId, seq, type }) => [conversationId, seq, type])).toEqual([
		[id, 1, "conversation-queued"],
		[id, 2, "conversation-end"],
	]);
	for (const call of [
		() => client.say(id, "Hello?"),
		() => client.interruptConversation(id),
		() => client.permit(id, "per_1", { reply: "once" }),
		() => client.reply(id, "que_1", { answers: null }),
	])
		await expect(call()).rejects.toMatchObject({ status: 409, code: "conversation_closed" });
	expect(await client.closeConversation(id)).toMatchObject({ closed: "asked" });
	expect(await client.reopenConversation(id)).toMatchObject({ status: "queued", closed: null });
	await expect(client.reopenConversation(id)).rejects.toMatchObject({
		status: 409,
		code: "conversation_open",
	});
});

test("what came with a key needs it again, and no answer ever holds it", async () => {
	const apiKey = "sk-canary-0123456789";
	const keyed = { type: "url", baseUrl: "http://127.0.0.1:9/v1", model: "m", apiKey } as const;
	const made = await client.converse({ endpoint: keyed });
	await client.closeConversation(made.id);
	await expect(client.reopenConversation(made.id)).rejects.toMatchObject({
		status: 422,
		code: "api_key_needed",
	});
	const again = await client.reopenConversation(made.id, { apiKey });
	const events = await client.conversation(made.id);
	expect(JSON.stringify([made, again, events, await client.conversations()])).not.toContain(apiKey);
});

test("what cannot be is refused before anything is stored, each with its code", async () => {
	const refusals: [object, number, string][] = [
		[{ endpoint, agent: { driver: "run" } }, 422, "driver_refused"],
		[{ endpoint, folder: "/etc" }, 422, "folder_refused"],
		[{ endpoint, folder: "etc" }, 422, "invalid_request"],
		[{ endpoint, idleS: 0 }, 422, "invalid_request"],
		[{ endpoint, verify: ["true"] }, 422, "invalid_request"],
		[{ endpoint, text: "a\0b" }, 422, "bad_text"],
		[{ endpoint, text: "Begin.", by: "policy" }, 422, "name_reserved"],
		[{ endpoint: { type: "policy", policy: "nobody" } }, 400, "unknown_policy"],
		[{ endpoint, sandbox: "process" }, 400, "sandbox_refused"],
	];
	const before = (await client.conversations()).items.length;
	for (const [body, status, code] of refusals) {
		const response = await postJson(app, PATH, body);
		expect([response.status, (await problemOf(response)).code], JSON.stringify(body)).toEqual([status, code]);
	}
	expect((await client.conversations()).items).toHaveLength(before);
});

test("what is said to one that waits is accepted, and kept for its worker under the sender's own name", async () => {
	const { id } = await client.converse({ endpoint });
	expect(await client.say(id, "Hello.", { messageId: "m1" })).toEqual({ accepted: true, messageId: "m1" });
	expect(await client.interruptConversation(id)).toEqual({ accepted: true });
	expect(await client.setModel(id, "paddock/large/v2")).toEqual({ accepted: true });
	await expect(client.setModel(id, "")).rejects.toMatchObject({ code: "invalid_request" });
	expect(await client.pendingAsks(id)).toEqual({ items: [] });
	expect(await client.deliverables(id)).toEqual({ items: [] });
	await expect(client.deliverable(id, "none")).rejects.toMatchObject({ status: 404 });
	expect((await client.conversationMessages(id)).messages).toEqual([]);
});
