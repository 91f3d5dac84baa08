import { describe, expect, test } from "vitest";
import type { RolloutEvent } from "../../src/model/event.ts";
import type { Failure } from "../../src/model/failure.ts";
import type { AbortTarget } from "../../src/store/store.ts";
import {
	batchOf,
	COMPLETED,
	groupOf,
	newRollout,
	type OpenFixture,
	running,
	submitOne,
	watchUntil,
} from "./conformance.ts";

const LOST: Failure = { boundary: "sandbox", code: "box_lost", message: "gone", retryable: true };

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

		test("what events change of a rollout is there with them, however many come at once", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store);
			const note = { type: "note", text: "told" } as const;
			await Promise.all([
				store.append(id, 1, [note], { phase: "agent" }),
				store.append(id, 1, [note], { calls: 1, promptTokens: 5 }),
				store.append(id, 1, [note]),
				store.append(id, 1, [note], { calls: 2 }),
			]);
			expect(await store.row(id)).toMatchObject({ phase: "agent", calls: 2, promptTokens: 5 });
			expect(await store.append(id, 2, [note], { calls: 9 })).toEqual([]);
			expect(await store.row(id)).toMatchObject({ calls: 2 });
			expect(await store.events(id, { after: 2, limit: 10 })).toHaveLength(4);
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
			const told = watchUntil(store, id, async () => (await store.commands(id, 1)).length === 1);
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

		test("a posted command waits, in its order, until it is dropped, and then is gone for everybody", async (context) => {
			await using fixture = await openFixture(context);
			await using one = await fixture.open();
			await using two = await fixture.open();
			const { id } = await running(one);
			for (const text of ["a", "b", "c"]) {
				expect(await one.post(id, { type: "send", text, by: "me" })).toBe(true);
			}
			const waiting = await two.commands(id, 1);
			expect(waiting.map(({ command }) => command)).toEqual(
				["a", "b", "c"].map((text) => ({ type: "send", text, by: "me" })),
			);
			await one.dropCommands(id, 1, waiting[1]!.number);
			expect(await two.commands(id, 1)).toEqual([waiting[2]]);
			await one.finish(id, 1, COMPLETED);
			expect(await two.post(id, { type: "send", text: "late", by: "me" })).toBe(false);
			expect(await two.post("ro_nobody", { type: "send", text: "?", by: "me" })).toBe(false);
		});

		test("a command that a dead worker had in its hands reaches the next attempt, and only that", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store);
			await store.post(id, { type: "send", text: "hello", by: "me" });
			const [read] = await store.commands(id, 1);
			await store.begin(id, "another");
			expect(await store.commands(id, 1)).toEqual([]);
			await store.dropCommands(id, 1, read!.number);
			expect(await store.commands(id, 2)).toEqual([read]);
		});
	});

	describe(`${name} announces what it commits`, () => {
		test("every event, whichever verb wrote it, once and as it is stored", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const heard: RolloutEvent[] = [];
			using _listening = store.onCommit((event) => heard.push(event));
			const submission = groupOf(2);
			await store.submit({ ...submission, idempotencyKey: "once" });
			await store.submit({ ...submission, idempotencyKey: "once" });
			const [one, two] = submission.rollouts.map(({ id }) => id) as [string, string];
			await store.begin(one, "w");
			await Promise.all(["a", "b", "c"].map((text) => store.append(one, 1, [{ type: "note", text }])));
			await store.append(one, 7, [{ type: "note", text: "refused" }]);
			await store.requeue(one, 1, LOST);
			await store.begin(one, "w");
			await store.patch(one, 2, { phase: "verify" });
			await store.finish(one, 2, COMPLETED);
			await store.finish(one, 2, { ...COMPLETED, reward: 0 });
			await store.requestAbort({ id: two });
			for (const id of [one, two]) {
				const stored = await store.events(id, { after: 0, limit: 100 });
				expect(heard.filter(({ rolloutId }) => rolloutId === id)).toEqual(stored);
			}
		});

		test("an aborted rollout that the next attempt, or its own failure, ended", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const [begun, failed] = [await running(store), await running(store)];
			for (const { id } of [begun, failed]) await store.requestAbort({ id });
			const heard: string[] = [];
			using _listening = store.onCommit(({ rolloutId, type }) => heard.push(`${rolloutId} ${type}`));
			await store.begin(begun.id, "the next");
			await store.requeue(failed.id, 1, LOST);
			expect(heard).toEqual([
				`${begun.id} rollout-end`,
				`${failed.id} attempt-failed`,
				`${failed.id} rollout-end`,
			]);
		});

		test("a listener that throws, or was let go, changes nothing for the writer", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const warned = Promise.withResolvers<Error>();
			process.once("warning", warned.resolve);
			let calls = 0;
			store.onCommit(() => calls++)[Symbol.dispose]();
			using _listening = store.onCommit(() => {
				throw new Error("a bug in a listener");
			});
			const { id } = await submitOne(store);
			expect(await store.begin(id, "w")).toMatchObject({ attempt: 1 });
			expect((await warned.promise).message).toBe("a bug in a listener");
			expect(calls).toBe(0);
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
			expect(await store.requeue(id, 1, LOST)).toBe(true);
			expect(await store.get(id)).toMatchObject({ status: "done", outcome: "aborted" });
			expect((await store.events(id, { after: 2, limit: 9 })).map((event) => event.type)).toEqual([
				"attempt-failed",
				"rollout-end",
			]);
		});
	});
}
