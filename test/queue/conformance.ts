import { once } from "node:events";
import { describe, expect, test, vi } from "vitest";
import { newId } from "../../src/model/id.ts";
import { submitTalk } from "../store/conformance-conversations.ts";
import { finish, hold, type OpenFixture, runAll, startChild, submitted } from "./fixture.ts";

export function queueConformance(name: string, openFixture: OpenFixture): void {
	describe(`${name} orders work`, () => {
		test("the most urgent goes first, equals in the order they came", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			const jobs = await submitted(fixture.store, 5);
			const [a, b, c, d, e] = jobs as [string, string, string, string, string];
			for (const rolloutId of [a, b]) await queue.enqueue([{ rolloutId, priority: 0 }]);
			await queue.enqueue([{ rolloutId: c, priority: -5 }]);
			await queue.enqueue([{ rolloutId: d, priority: 10 }]);
			await queue.enqueue([{ rolloutId: e, priority: 0 }]);
			expect(await queue.depth()).toBe(5);
			const log = await runAll(fixture.store, queue, 5, { capacity: 1 });
			expect(log).toEqual([d, a, b, e, c]);
			expect(await queue.depth()).toBe(0);
		});

		test("no more run at once than there is room for, and the room is used", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			const ids = await submitted(fixture.store, 9);
			await queue.enqueue(ids.map((rolloutId) => ({ rolloutId, priority: 0 })));
			let now = 0;
			let most = 0;
			const full = Promise.withResolvers<void>();
			const log = await runAll(fixture.store, queue, 9, {
				capacity: 3,
				during: async () => {
					now += 1;
					most = Math.max(most, now);
					if (now === 3) full.resolve();
					await full.promise;
					now -= 1;
				},
			});
			expect(most).toBe(3);
			expect(log.toSorted()).toEqual(ids.toSorted());
		});

		test("idle conversations keep no rollout waiting, and rollouts no conversation", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			const talks = [await submitTalk(fixture.store), await submitTalk(fixture.store)];
			const late = await submitTalk(fixture.store);
			const rollouts = await submitted(fixture.store, 3);
			await queue.enqueue(talks.map((rolloutId) => ({ rolloutId, priority: 10 })));
			await queue.enqueue([...rollouts, late].map((rolloutId) => ({ rolloutId, priority: 0 })));
			const closing = Promise.withResolvers<void>();
			const started = new Set<string>();
			const done = Promise.withResolvers<void>();
			const worker = await queue.work({
				workerId: newId("wk"),
				capacity: 1,
				conversations: 2,
				handle: async ({ rolloutId }) => {
					started.add(rolloutId);
					if (talks.includes(rolloutId)) await closing.promise;
					await finish(fixture.store, rolloutId);
					if (rolloutId === rollouts[2]) done.resolve();
					return "done";
				},
			});
			// All rollouts end although the room for conversations is taken; the conversation that has none waits.
			await done.promise;
			await expect.poll(() => started.has(talks[0]!) && started.has(talks[1]!)).toBe(true);
			await expect
				.poll(async () => (await queue.workers())[0])
				.toMatchObject({
					...{ capacity: 1, running: 0, maxConversations: 2, conversations: 2 },
				});
			expect(started.has(late)).toBe(false);
			expect(await queue.depth()).toBe(1);
			closing.resolve();
			await expect.poll(() => started.has(late)).toBe(true);
			await worker.drain(60_000);
			expect(await queue.depth()).toBe(0);
		});

		test("a busy worker still opens conversations", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			const [rollout] = (await submitted(fixture.store, 1)) as [string];
			const held = hold(fixture.store);
			await queue.enqueue([{ rolloutId: rollout, priority: 0 }]);
			const talked = Promise.withResolvers<void>();
			const worker = await queue.work({
				workerId: newId("wk"),
				capacity: 1,
				conversations: 1,
				handle: async (job) => {
					if (job.rolloutId === rollout) return await held.handle(job);
					await finish(fixture.store, job.rolloutId);
					talked.resolve();
					return "done";
				},
			});
			await held.started;
			await queue.enqueue([{ rolloutId: await submitTalk(fixture.store), priority: 0 }]);
			await talked.promise;
			held.release();
			await worker.drain(60_000);
		});

		test("a job that came back lets others pass, and runs when its time has come", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			const [back, other] = (await submitted(fixture.store, 2)) as [string, string];
			await queue.enqueue([{ rolloutId: back, priority: 50 }]);
			await queue.enqueue([{ rolloutId: other, priority: 0 }]);
			const log: string[] = [];
			const ended = Promise.withResolvers<void>();
			await using _worker = await queue.work({
				workerId: newId("wk"),
				capacity: 1,
				handle: async ({ rolloutId }) => {
					log.push(rolloutId);
					if (log.length === 1) return "retry";
					await finish(fixture.store, rolloutId);
					if (log.length === 3) ended.resolve();
					return "done";
				},
			});
			await ended.promise;
			expect(log).toEqual([back, other, back]);
		});

		test("a clock that was wrong for a while keeps no job waiting", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			const [rolloutId] = (await submitted(fixture.store, 1)) as [string];
			vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 3_600_000 });
			try {
				await queue.enqueue([{ rolloutId, priority: 0 }]);
			} finally {
				vi.useRealTimers();
			}
			expect(await runAll(fixture.store, queue, 1, { capacity: 1 })).toEqual([rolloutId]);
		});

		test("enqueued many times, run once", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			await using other = await fixture.open();
			const [twice, last] = (await submitted(fixture.store, 2)) as [string, string];
			await Promise.all(
				[queue, other, queue, other].map((each) => each.enqueue([{ rolloutId: twice, priority: 0 }])),
			);
			await queue.enqueue([{ rolloutId: last, priority: -1 }]);
			expect(await queue.depth()).toBe(2);
			expect(await runAll(fixture.store, queue, 2, { capacity: 1 })).toEqual([twice, last]);
		});

		test("cancelled before it ran, it never runs", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			const [gone, kept] = (await submitted(fixture.store, 2)) as [string, string];
			await queue.enqueue([gone, kept].map((rolloutId) => ({ rolloutId, priority: 0 })));
			await fixture.store.requestAbort({ id: gone });
			await queue.cancel([gone, "ro_nobody"]);
			await queue.cancel([]);
			expect(await queue.depth()).toBe(1);
			expect(await runAll(fixture.store, queue, 1, { capacity: 1 })).toEqual([kept]);
		});
	});

	describe(`${name} tries again`, () => {
		test("a job comes back until its handler says done, whether it asked for it or threw", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			const [rolloutId] = (await submitted(fixture.store, 1)) as [string];
			await queue.enqueue([{ rolloutId, priority: 0 }]);
			let starts = 0;
			const done = Promise.withResolvers<void>();
			await using _worker = await queue.work({
				workerId: newId("wk"),
				capacity: 2,
				handle: async () => {
					starts += 1;
					if (starts === 1) return "retry";
					if (starts === 2) throw new Error("broken on purpose");
					await finish(fixture.store, rolloutId);
					done.resolve();
					return "done";
				},
			});
			await done.promise;
			expect(starts).toBe(3);
			await expect.poll(() => queue.depth()).toBe(0);
		});

		test("an unfinished rollout that nobody enqueued is found when work starts", async (context) => {
			await using fixture = await openFixture(context);
			const ids = await submitted(fixture.store, 3);
			await fixture.store.begin(ids[0]!, "a worker that died");
			await using queue = await fixture.open();
			const log = await runAll(fixture.store, queue, 3, { capacity: 1 });
			expect(log.toSorted()).toEqual(ids.toSorted());
		});
	});

	describe(`${name} lets workers come and go`, () => {
		test("workers are listed with their room and their load, until they leave", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			await using other = await fixture.open();
			const [rolloutId] = (await submitted(fixture.store, 1)) as [string];
			const held = hold(fixture.store);
			await queue.enqueue([{ rolloutId, priority: 0 }]);
			const worker = await queue.work({ workerId: "wk_one", capacity: 3, handle: held.handle });
			await held.started;
			await expect.poll(async () => (await other.workers())[0]?.running).toBe(1);
			expect(await other.workers()).toEqual([
				{
					id: "wk_one",
					host: expect.any(String),
					pid: process.pid,
					capacity: 3,
					running: 1,
					maxConversations: 0,
					conversations: 0,
					draining: false,
					startedAt: expect.any(Number),
					seenAt: expect.any(Number),
				},
			]);
			expect(worker.running).toBe(1);
			held.release();
			await worker.drain(60_000);
			expect(await other.workers()).toEqual([]);
		});

		test("a draining worker finishes what it has and takes nothing new", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			const [first, second] = (await submitted(fixture.store, 2)) as [string, string];
			const held = hold(fixture.store);
			await queue.enqueue([{ rolloutId: first, priority: 1 }]);
			const worker = await queue.work({ workerId: newId("wk"), capacity: 1, handle: held.handle });
			await held.started;
			const drained = worker.drain(60_000);
			await queue.enqueue([{ rolloutId: second, priority: 0 }]);
			held.release();
			await drained;
			expect(held.log).toEqual([first]);
			expect((await fixture.store.get(first))?.status).toBe("done");
			expect(await queue.depth()).toBe(1);
			expect(await runAll(fixture.store, queue, 1, { capacity: 1 })).toEqual([second]);
		});

		test("what a drained worker could not finish in time is handed to another", async (context) => {
			await using fixture = await openFixture(context);
			await using leaving = await fixture.open();
			await using staying = await fixture.open();
			const [rolloutId] = (await submitted(fixture.store, 1)) as [string];
			const started = Promise.withResolvers<void>();
			const worker = await leaving.work({
				workerId: newId("wk"),
				capacity: 1,
				handle: async (job) => {
					started.resolve();
					if (!job.signal.aborted) await once(job.signal, "abort");
					return "retry";
				},
			});
			await leaving.enqueue([{ rolloutId, priority: 0 }]);
			await started.promise;
			await worker.drain(0);
			expect(await runAll(fixture.store, staying, 1, { capacity: 1 })).toEqual([rolloutId]);
		});

		test("a live process keeps its job; when it is killed another takes it over", async (context) => {
			await using fixture = await openFixture(context);
			await using queue = await fixture.open();
			const [theirs, ours] = (await submitted(fixture.store, 2)) as [string, string];
			const child = await startChild(fixture.address, theirs);
			await queue.enqueue([{ rolloutId: ours, priority: 0 }]);
			const log: string[] = [];
			const both = Promise.withResolvers<void>();
			const one = Promise.withResolvers<void>();
			await using _worker = await queue.work({
				workerId: newId("wk"),
				capacity: 2,
				handle: async (job) => {
					await finish(fixture.store, job.rolloutId);
					log.push(job.rolloutId);
					one.resolve();
					if (log.length === 2) both.resolve();
					return "done";
				},
			});
			await one.promise;
			expect(log).toEqual([ours]);
			const gone = once(child.process, "exit");
			child.process.kill("SIGKILL");
			await gone;
			const killedAt = Date.now();
			await both.promise;
			expect(log).toEqual([ours, theirs]);
			context.annotate(`taken over after ${((Date.now() - killedAt) / 1000).toFixed(1)} s`);
		});
	});
}
