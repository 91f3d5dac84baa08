import { describe, expect, test } from "vitest";
import type { AbortTarget } from "../../src/store/store.ts";
import {
	batchOf,
	COMPLETED,
	newRollout,
	type OpenFixture,
	running,
	submitOne,
	watchUntil,
} from "./conformance.ts";

/** The event log, watching, and commands. */
export function eventConformance(name: string, openFixture: OpenFixture): void {
	describe(`${name} keeps events`, () => {
		test("fifty appenders at once, on two stores, leave no gap and no double in the numbers", async (context) => {
			await using fixture = await openFixture(context);
			await using one = await fixture.open();
			await using two = await fixture.open();
			const { id } = await running(one);
			const answers = await Promise.all(
				Array.from({ length: 50 }, async (_, appender) => {
					const store = appender % 2 === 0 ? one : two;
					const seqs: number[] = [];
					for (let round = 0; round < 4; round++) {
						const events = await store.append(id, 1, [
							{ type: "note", text: `${appender}.${round}.a` },
							{ type: "note", text: `${appender}.${round}.b` },
						]);
						seqs.push(...events.map((event) => event.seq));
						expect(events[1]!.seq).toBe(events[0]!.seq + 1);
					}
					expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
					return seqs;
				}),
			);
			const all = answers.flat().sort((a, b) => a - b);
			expect(all).toEqual(Array.from({ length: 400 }, (_, index) => index + 3));
			const stored = await two.events(id, { after: 0, limit: 1000 });
			expect(stored.map((event) => event.seq)).toEqual(Array.from({ length: 402 }, (_, index) => index + 1));
		});

		test("events are read from any number on, so many at a time, as they were appended", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store);
			const appended = await store.append(id, 1, [
				{ type: "note", text: 'quote " backslash \\ newline \n nul-free ünïcode 🐎' },
				{ type: "agent-event", name: "message.updated", properties: { deep: [{ x: null }] } },
				{ type: "reward", reward: 0.25 },
			]);
			expect(await store.events(id, { after: 2, limit: 10 })).toEqual(appended);
			expect(await store.events(id, { after: 3, limit: 1 })).toEqual([appended[1]]);
			expect(await store.events(id, { after: 5, limit: 10 })).toEqual([]);
			expect(await store.append(id, 1, [])).toEqual([]);
		});

		test("text that a database may choke on comes back as it went in", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store);
			const text = "nul \u0000 lone \ud800 end";
			await store.append(id, 1, [{ type: "note", text }]);
			expect((await store.events(id, { after: 2, limit: 1 }))[0]).toMatchObject({ type: "note", text });
		});

		test("a watcher hears of a change made through its own store", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store);
			const heard = watchUntil(store, id, async () => (await store.get(id))?.phase === "verify");
			await store.patch(id, 1, { phase: "verify" });
			await heard;
		});

		test("a watcher hears of a change made through another store", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			await using other = await fixture.open();
			const { id } = await running(store);
			const noted = watchUntil(
				store,
				id,
				async () => (await store.events(id, { after: 2, limit: 1 })).length === 1,
			);
			await other.append(id, 1, [{ type: "note", text: "from afar" }]);
			await noted;
			const told = watchUntil(store, id, async () => (await store.takeCommands(id)).length === 1);
			await other.post(id, { type: "send", text: "hello", by: "someone" });
			await told;
			const ended = watchUntil(store, id, async () => (await store.get(id))?.status === "done");
			await other.finish(id, 1, COMPLETED);
			await ended;
		});

		test("a watcher that was let go hears nothing more", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store);
			let calls = 0;
			store.watch(id, () => calls++)[Symbol.dispose]();
			const heard = watchUntil(store, id, async () => (await store.get(id))?.phase === "verify");
			await store.patch(id, 1, { phase: "verify" });
			await heard;
			expect(calls).toBe(0);
		});

		test("each posted command is handed out once, oldest first, however many ask", async (context) => {
			await using fixture = await openFixture(context);
			await using one = await fixture.open();
			await using two = await fixture.open();
			const { id } = await running(one);
			for (const text of ["a", "b", "c"]) {
				expect(await one.post(id, { type: "send", text, by: "me" })).toBe(true);
			}
			const taken = await Promise.all([one, two, one, two].map((store) => store.takeCommands(id)));
			expect(taken.flat()).toEqual(["a", "b", "c"].map((text) => ({ type: "send", text, by: "me" })));
			await one.finish(id, 1, COMPLETED);
			expect(await two.post(id, { type: "send", text: "late", by: "me" })).toBe(false);
			expect(await two.post("ro_nobody", { type: "send", text: "?", by: "me" })).toBe(false);
		});
	});

	describe(`${name} aborts`, () => {
		test("a queued rollout ends at once; a running one is only marked", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const queued = await submitOne(store);
			const busy = await running(store);
			expect(await store.requestAbort({ id: queued.id })).toEqual([
				{ id: queued.id, attempt: 0, ended: true },
			]);
			expect(await store.requestAbort({ id: busy.id })).toEqual([{ id: busy.id, attempt: 1, ended: false }]);
			expect(await store.get(queued.id)).toMatchObject({
				status: "done",
				outcome: "aborted",
				reward: null,
				failure: null,
				abortRequested: true,
			});
			expect((await store.events(queued.id, { after: 1, limit: 10 })).map((event) => event.type)).toEqual([
				"rollout-end",
			]);
			expect(await store.begin(queued.id, "w")).toBeNull();
			expect(await store.get(busy.id)).toMatchObject({ status: "running", abortRequested: true });
			expect(await store.requestAbort({ id: queued.id })).toEqual([]);
			expect(await store.requestAbort({ id: "ro_nobody" })).toEqual([]);
		});

		test("a group and a batch are aborted whole, except for what has ended", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const batch = batchOf(["one", "two"], 3);
			await store.submit(batch);
			const ids = batch.rollouts.map((rollout) => rollout.id);
			await store.begin(ids[0]!, "w");
			await store.finish(ids[0]!, 1, COMPLETED);
			await store.begin(ids[1]!, "w");
			const hit = async (target: AbortTarget) => (await store.requestAbort(target)).map(({ id }) => id);
			expect(await hit({ groupId: batch.groups[0]!.id })).toEqual(ids.slice(1, 3));
			expect(await hit({ batchId: batch.batch.id })).toEqual([ids[1], ...ids.slice(3)]);
			expect(await store.counts()).toEqual({ queued: 0, running: 1, done: 5 });
			expect(await store.get(ids[0]!)).toMatchObject({ outcome: "completed", abortRequested: false });
		});

		test("a rollout whose attempt died after an abort was asked for is not tried again", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store);
			await store.requestAbort({ id });
			expect(await store.begin(id, "the next worker")).toBeNull();
			expect(await store.get(id)).toMatchObject({ status: "done", outcome: "aborted", attempt: 1 });
			expect((await store.events(id, { after: 2, limit: 9 })).map((event) => event.type)).toEqual([
				"rollout-end",
			]);
		});

		test("a rollout put back after an abort was asked for ends as aborted", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store, newRollout());
			await store.requestAbort({ id });
			const failure = { boundary: "sandbox", code: "box_lost", message: "gone", retryable: true } as const;
			expect(await store.requeue(id, 1, failure)).toBe(true);
			expect(await store.get(id)).toMatchObject({ status: "done", outcome: "aborted" });
			expect((await store.events(id, { after: 2, limit: 9 })).map((event) => event.type)).toEqual([
				"attempt-failed",
				"rollout-end",
			]);
		});
	});
}
