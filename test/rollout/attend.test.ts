import { expect, test } from "vitest";
import type { ConversationEvent, PermissionAsk } from "../../src/agent/agent.ts";
import { openProcessBackend } from "../../src/sandbox/process/process.ts";
import { task } from "../fixtures/script.ts";
import { changed, openStage, scriptAgent, scriptConversation } from "./fixture.ts";

const ask: PermissionAsk = {
	...{ kind: "permission", id: "per_1", sessionId: "ses_1", isChild: false, tool: "bash", input: {} },
	...{ patterns: ["rm *"], always: [] },
};

test("an agent that says too much is no longer kept; what it asks and what people do to it still is", async () => {
	const agent = scriptAgent("", {
		open: async (directory) => {
			let emit = (_event: ConversationEvent): unknown => null;
			const conversation = scriptConversation(box, directory, "true");
			return changed(conversation, {
				subscribe(handler) {
					const before = emit;
					emit = (event) => [before(event), handler(event)];
					return conversation.subscribe(handler);
				},
				async send(text) {
					if (text === "Go on.") return await conversation.send(text);
					for (let count = 0; count < 200; count += 1)
						emit({ type: "agent-event", name: "todo.updated", properties: { todos: babble } });
					emit({ type: "ask", ask });
					emit({ type: "ask-end", end: { ask, reply: "reject", by: "anna" } });
					const { items } = await stage.store.list({}, { limit: 1 });
					await stage.store.post(items[0]!.id, { type: "send", text: "Go on.", by: "anna" });
					return "msg_0";
				},
			});
		},
	});
	await using stage = await openStage(
		{
			...agent,
			async boot(given, ...rest) {
				box = given;
				return await agent.boot(given, ...rest);
			},
		},
		() => openProcessBackend({ warn: () => {} }),
	);
	const { id, summary, notes } = await stage.play(task());
	expect(notes).toContain("the agent says too much: no more of it is kept");
	const events = await stage.store.events(id, { after: 0, limit: 1_000 });
	expect(events.filter(({ type }) => type === "agent-event").length).toBeLessThan(200);
	const told = events.map(({ type }) => type);
	expect(told).toEqual(expect.arrayContaining(["permission-ask", "permission-end", "message-sent"]));
	expect(summary!.interventions).toMatchObject([
		{ kind: "denial", by: "anna" },
		{ kind: "message", by: "anna" },
	]);
});

/** As much as one event may hold. */
const babble = Array.from({ length: 100 }, () => "x".repeat(4_000));
let box: Parameters<typeof scriptConversation>[0];
