import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConversationEvent, ConversationRequest } from "../../src/model/conversation.ts";
import { openTestPaddock, type TestPaddock } from "../fixtures/paddock.ts";
import { bash, openScriptedModel, say } from "../fixtures/script.ts";

let station: TestPaddock;
beforeAll(async () => {
	station = await openTestPaddock();
});
afterAll(async () => await station?.[Symbol.asyncDispose]());

describe("a conversation", { timeout: 900_000 }, () => {
	test("is opened by a worker, takes turns, and ends when it is closed, with its end as the last event", async () => {
		await using model = await openScriptedModel([bash("echo kept > note.txt"), say("first"), say("second")]);
		const talk = await start({ endpoint: model.endpoint, text: "Begin." });
		await until(talk, (event) => event.type === "turn-end");
		await station.paddock.sendMessage(talk, { text: "Go on.", messageId: "m1", by: "anna" });
		await station.paddock.sendMessage(talk, { text: "Go on.", messageId: "m1", by: "anna" });
		await until(talk, (event) => event.type === "turn-end" && event.text === "second");
		await station.paddock.closeConversation(talk);
		const all = await events(talk);
		expect(all.filter((event) => event.type === "message-sent")).toMatchObject([
			{ text: "Begin.", id: "opening" },
			{ text: "Go on.", id: "m1", by: "anna" },
		]);
		expect(all.at(-1)).toMatchObject({ type: "conversation-end", reason: "asked", failure: null });
		expect(all.map((event) => event.seq)).toEqual(all.map((_, index) => index + 1));
		expect(await station.paddock.conversation(talk)).toMatchObject({ status: "closed", closed: "asked" });
	});

	test("closed and opened again, it goes on with what was said and what it wrote", async () => {
		await using model = await openScriptedModel([
			bash("echo kept > note.txt; rm -f given.txt"),
			say("first"),
			bash("cat note.txt; ls"),
			say("second"),
		]);
		const files = [{ path: "given.txt", content: "given" }];
		const talk = await start({ endpoint: model.endpoint, text: "Begin.", files });
		await until(talk, (event) => event.type === "turn-end");
		await station.paddock.closeConversation(talk);
		await until(talk, (event) => event.type === "conversation-end");
		const { apiKey } = model.endpoint;
		await expect(station.paddock.reopenConversation(talk)).rejects.toMatchObject({ code: "api_key_needed" });
		await station.paddock.reopenConversation(talk, { apiKey });
		await station.paddock.sendMessage(talk, { text: "Look." });
		const end = await until(talk, (event) => event.type === "turn-end" && event.text === "second");
		expect(end).toMatchObject({ ended: "answered" });
		const transcript = JSON.stringify((await station.paddock.conversationMessages(talk))!.messages);
		expect(transcript).toContain("Begin.");
		const looked = JSON.stringify(await events(talk, { until: "turn-end", text: "second" }));
		expect(looked).toContain("kept\\nnote.txt\\n");
		expect(looked).not.toContain("given.txt\\n");
		await station.paddock.closeConversation(talk);
	});

	test("what was allowed for always is still allowed when it is opened again", async () => {
		await using model = await openScriptedModel([
			...[bash("echo one > a"), say("first"), bash("echo two > b"), say("second")],
		]);
		const { paddock } = station;
		const talk = await start({ endpoint: model.endpoint, text: "Begin.", agent: { permission: "ask" } });
		const ask = await until(talk, (event) => event.type === "permission-ask");
		const { requestId } = ask as { requestId: string };
		await paddock.command(talk, { type: "permission", requestId, reply: "always", by: "anna" });
		await until(talk, (event) => event.type === "turn-end" && event.text === "first");
		await paddock.closeConversation(talk);
		await until(talk, (event) => event.type === "conversation-end");
		await paddock.reopenConversation(talk, { apiKey: model.endpoint.apiKey });
		await paddock.sendMessage(talk, { text: "Again." });
		await until(talk, (event) => event.type === "turn-end" && event.text === "second");
		await paddock.closeConversation(talk);
		const all = (await paddock.conversationEvents(talk, { after: 0, limit: 1_000 }))!.items;
		expect(all.filter(({ type }) => type === "permission-always")).toMatchObject([
			{ requestId, by: "anna", permission: "bash" },
		]);
		const ends = all.flatMap((event) => (event.type === "permission-end" ? [event] : []));
		expect(ends).toMatchObject([
			{ reply: "once", by: "anna" },
			{ reply: "once", by: "rule" },
		]);
	});

	test("nobody says anything for long enough: it closes by itself", async () => {
		await using model = await openScriptedModel([say("first")]);
		const talk = await start({ endpoint: model.endpoint, text: "Begin.", idleS: 0.5 });
		const all = await events(talk);
		expect(all.some((event) => event.type === "turn-end")).toBe(true);
		expect(all.at(-1)).toMatchObject({ type: "conversation-end", reason: "idle" });
	});
});

async function start(request: Parameters<typeof ConversationRequest.parse>[0] & object): Promise<string> {
	return (await station.paddock.converse(ConversationRequest.parse(request))).id;
}

async function until(id: string, found: (event: ConversationEvent) => boolean): Promise<ConversationEvent> {
	for await (const event of station.paddock.followConversation(id)) if (found(event)) return event;
	throw new Error(`${id} ended without it: ${JSON.stringify((await events(id)).slice(-8))}`);
}

async function events(id: string, stop?: { until: string; text: string }): Promise<ConversationEvent[]> {
	const all: ConversationEvent[] = [];
	for await (const event of station.paddock.followConversation(id)) {
		all.push(event);
		if (event.type === stop?.until && "text" in event && event.text === stop.text) break;
	}
	return all;
}
