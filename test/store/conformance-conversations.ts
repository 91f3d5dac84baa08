import { describe, expect, test } from "vitest";
import { newConversationId } from "../../src/model/id.ts";
import type { Store } from "../../src/store/store.ts";
import { COMPLETED, type OpenFixture, request, submitOne } from "./conformance.ts";

const CLOSED = { ...COMPLETED, reward: null, closed: "idle" } as const;

/** What conversations have of their own; all the rest they share with rollouts. */
export function conversationConformance(name: string, openFixture: OpenFixture): void {
	describe(`${name} keeps conversations`, () => {
		test("apart from rollouts, in lists and counts", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const rollout = await submitOne(store);
			const id = await submitTalk(store);
			const page = { limit: 10 };
			expect((await store.list({ kind: "rollout" }, page)).items.map((row) => row.id)).toEqual([rollout.id]);
			expect((await store.conversations({}, page)).items.map((row) => row.id)).toEqual([id]);
			expect((await store.conversations({ status: "done" }, page)).items).toEqual([]);
			expect(await store.counts("rollout")).toEqual({ queued: 1, running: 0, done: 0 });
			expect(await store.counts("conversation")).toEqual({ queued: 1, running: 0, done: 0 });
			expect(await store.counts()).toEqual({ queued: 2, running: 0, done: 0 });
			expect(await store.conversation(rollout.id)).toBeNull();
			expect(await store.conversation(id)).toMatchObject({ id, status: "queued", closed: null, attempt: 0 });
		});

		test("closed and opened again: events go on, tries begin anew, the end is the last word each time", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const id = await submitTalk(store);
			expect(await store.reopen(id, { by: "test" })).toBe(false);
			await store.begin(id, "w1");
			await store.patch(id, 1, { sessionId: "ses_1", calls: 3 });
			await store.finish(id, 1, CLOSED);
			expect(await store.append(id, 1, [{ type: "note", text: "late" }])).toEqual([]);
			expect(await store.conversation(id)).toMatchObject({ status: "closed", closed: "idle" });
			expect(await store.reopen(id, { by: "test" })).toBe(true);
			expect(await store.reopen(id, { by: "test" })).toBe(false);
			expect(await store.conversation(id)).toMatchObject({
				status: "queued",
				closed: null,
				finishedAt: null,
			});
			const again = await store.begin(id, "w2");
			expect(again).toMatchObject({ attempt: 2, handedBack: 1, sessionId: "ses_1", calls: 3 });
			expect(await store.requestAbort({ id })).toEqual([{ id, attempt: 2, ended: false }]);
			await store.finish(id, 2, { ...CLOSED, closed: "asked" });
			const events = await store.events(id, { after: 0, limit: 100 });
			expect(events.map(({ type, seq }) => `${seq} ${type}`)).toEqual([
				"1 conversation-queued",
				"2 conversation-start",
				"3 conversation-end",
				"4 conversation-reopen",
				"5 conversation-start",
				"6 conversation-end",
			]);
			expect(events.at(-1)).toMatchObject({ reason: "asked", attempt: 2 });
		});

		test("one that is closed while it waits ends at once; a rollout is never opened again", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const id = await submitTalk(store);
			expect(await store.requestAbort({ id })).toEqual([{ id, attempt: 0, ended: true }]);
			expect(await store.conversation(id)).toMatchObject({ status: "closed", closed: "asked" });
			const rollout = await submitOne(store);
			await store.begin(rollout.id, "w1");
			await store.finish(rollout.id, 1, COMPLETED);
			expect(await store.reopen(rollout.id, { by: "test" })).toBe(false);
		});

		test("a key is erased at the close, and sealed anew when it is given again", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const id = await submitTalk(store);
			await store.begin(id, "w1");
			await store.finish(id, 1, CLOSED);
			expect(await store.secret(id)).toBeNull();
			await store.reopen(id, { by: "test", apiKey: "sk-again" });
			expect(await store.secret(id)).toBe("sk-again");
		});

		test("what an earlier attempt left is found by name until a newer one leaves its own", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const id = await submitTalk(store);
			await store.begin(id, "w1");
			await store.putBlob(id, 1, "state", Buffer.from("one"));
			await store.finish(id, 1, CLOSED);
			await store.reopen(id, { by: "test" });
			await store.begin(id, "w2");
			expect(await store.getBlob(id, "state")).toBeNull();
			expect((await store.lastBlob(id, "state"))?.toString()).toBe("one");
			await store.putBlob(id, 2, "state", Buffer.from("two"));
			expect((await store.lastBlob(id, "state"))?.toString()).toBe("two");
		});
	});
}

export async function submitTalk(store: Store): Promise<string> {
	const terms = { idleS: 60, lifetimeS: 60, deliverables: [], after: [], keyed: false };
	const id = newConversationId();
	await store.submit({ rollouts: [{ id, request: { ...request(), conversation: terms } }] });
	return id;
}
