import { describe, expect, test } from "vitest";
import type { RolloutOrder, TraceSummary } from "../../src/model/rollout.ts";
import type { Page, Submission } from "../../src/store/store.ts";
import {
	batchOf,
	COMPLETED,
	groupOf,
	newRollout,
	type OpenFixture,
	request,
	requestFor,
	running,
	submitOne,
} from "./conformance.ts";

const SUMMARY: TraceSummary = {
	...{
		version: 1,
		sandboxId: "box",
		sessionId: null,
		setup: [],
		verify: [],
		agentExitCode: null,
		wallS: 1.5,
	},
	timings: { setup: 0.5 },
	files: [{ path: "a.txt", sizeBytes: 3 }],
	box: { backend: "local" },
	untrainable: null,
};

/** Submitting, reading, taking, ending. */
export function rolloutConformance(name: string, openFixture: OpenFixture): void {
	describe(`${name} keeps rollouts`, () => {
		test("a submitted rollout is queued, with its first event", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await submitOne(store, { request: request({ labels: { run: "a" }, priority: 7 }) });
			const rollout = await store.get(id);
			expect(rollout).toMatchObject({ id, taskId: "echo", status: "queued", phase: "queued", attempt: 0 });
			expect(rollout?.request).toEqual(request({ labels: { run: "a" }, priority: 7 }));
			expect(await store.events(id, { after: 0, limit: 10 })).toEqual([
				{ rolloutId: id, seq: 1, at: expect.any(Number), type: "rollout-queued", taskId: "echo" },
			]);
			expect(await store.get("ro_nobody")).toBeNull();
			expect(await store.events("ro_nobody", { after: 0, limit: 10 })).toEqual([]);
		});

		test("a submission that cannot be stored whole is not stored at all", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const twin = newRollout();
			await expect(store.submit({ rollouts: [newRollout(), twin, twin] })).rejects.toThrow();
			expect(await store.counts()).toEqual({ queued: 0, running: 0, done: 0 });
			await submitOne(store);
			expect(await store.counts()).toEqual({ queued: 1, running: 0, done: 0 });
		});

		test("the same idempotency key many times at once, from two processes' stores, makes one submission", async (context) => {
			await using fixture = await openFixture(context);
			await using one = await fixture.open();
			await using two = await fixture.open();
			const answers = await Promise.all(
				Array.from({ length: 10 }, (_, index) =>
					(index % 2 === 0 ? one : two).submit({ ...groupOf(2), idempotencyKey: "again" }),
				),
			);
			expect(answers.filter((answer) => answer.fresh)).toHaveLength(1);
			const ids = new Set(answers.map((answer) => answer.rollouts.map((rollout) => rollout.id).join()));
			expect(ids.size).toBe(1);
			expect(new Set(answers.map((answer) => answer.group?.id)).size).toBe(1);
			expect(await one.counts()).toEqual({ queued: 2, running: 0, done: 0 });
		});

		test("a key that comes back with another submission is refused, whatever differs", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const endpoint = { type: "url", baseUrl: "http://127.0.0.1:1/v1", model: "m", apiKey: "sk-first" };
			const asked = request({ endpoint, labels: { a: "1", b: "2" } });
			const send = (submission: Submission) => store.submit({ ...submission, idempotencyKey: "taken" });
			const first = await send({ rollouts: [newRollout({ request: asked })] });

			const reordered = request({ labels: { b: "2", a: "1" }, endpoint });
			const repeat = await send({ rollouts: [newRollout({ request: reordered })] });
			expect(repeat).toMatchObject({ fresh: false, rollouts: [{ id: first.rollouts[0]!.id }] });

			const others: Submission[] = [
				{ rollouts: [newRollout()] },
				{ rollouts: [newRollout({ request: { ...asked, labels: {} } })] },
				{
					rollouts: [
						newRollout({ request: request({ ...asked, endpoint: { ...endpoint, apiKey: "sk-2" } }) }),
					],
				},
				{ rollouts: [newRollout({ request: asked }), newRollout({ request: asked })] },
				groupOf(1),
				batchOf(["echo"], 1),
			];
			for (const other of others) {
				await expect(send(other)).rejects.toMatchObject({ code: "idempotency_conflict" });
			}
			expect(await store.counts()).toEqual({ queued: 1, running: 0, done: 0 });
			expect(await store.isSubmitted("taken")).toBe(true);
			expect(await store.isSubmitted("never")).toBe(false);
			expect(await fixture.holds("sk-first")).toBe(false);
		});

		test("groups of a batch are told apart by how they were cut", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			await store.submit({ ...batchOf(["echo", "echo"], 1), idempotencyKey: "cut" });
			const again = await store.submit({ ...batchOf(["echo", "echo"], 1), idempotencyKey: "cut" });
			expect(again.fresh).toBe(false);
			const otherwise = store.submit({ ...batchOf(["echo"], 2), idempotencyKey: "cut" });
			await expect(otherwise).rejects.toMatchObject({ code: "idempotency_conflict" });
		});

		test("every filter finds exactly its rollouts", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const batch = batchOf(["one", "two"], 2);
			await store.submit(batch);
			const labelled = await submitOne(store, {
				request: requestFor("three", { labels: { team: "red", run: "1" } }),
			});
			await submitOne(store, { request: requestFor("three", { labels: { team: "blue" } }) });
			const taken = batch.rollouts[0]!.id;
			await store.begin(taken, "w");
			await store.finish(taken, 1, { ...COMPLETED, outcome: "timeout" });
			await store.begin(batch.rollouts[1]!.id, "w");

			const found = async (filter: Parameters<typeof store.list>[0]) =>
				(await store.list(filter, { limit: 100, order: "oldest" })).items.map((rollout) => rollout.id);
			const ids = batch.rollouts.map((rollout) => rollout.id);
			expect(await found({ batchId: batch.batch.id })).toEqual(ids);
			expect(await found({ groupId: batch.groups[1]!.id })).toEqual(ids.slice(2));
			expect(await found({ taskId: "one" })).toEqual(ids.slice(0, 2));
			expect(await found({ status: "done" })).toEqual([taken]);
			expect(await found({ status: "running" })).toEqual([ids[1]]);
			expect(await found({ outcome: "timeout" })).toEqual([taken]);
			expect(await found({ label: { name: "team", value: "red" } })).toEqual([labelled.id]);
			expect(await found({ label: { name: "team", value: "red" }, status: "done" })).toEqual([]);
			expect(await found({ batchId: batch.batch.id, status: "queued", taskId: "two" })).toEqual(ids.slice(2));
			expect(await store.counts()).toEqual({ queued: 4, running: 1, done: 1 });
		});

		test("model, text, reward, time and duration find exactly their rollouts", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const url = (model: string) => ({ type: "url", baseUrl: "http://127.0.0.1:1/v1", model });
			const ids: string[] = [];
			for (const [index, model] of ["Qwen/Qwen3-8B", "Qwen/Qwen3-8B-base", "gpt-5"].entries()) {
				const task = { id: `Größe-${index}`, instruction: `Fix the_parser number${index}, it's broken` };
				const labels = { run: `night-${index}` };
				const { id, attempt } = await running(store, {
					request: request({ task, endpoint: url(model), labels }),
				});
				await store.finish(id, attempt, { ...COMPLETED, reward: index / 2 });
				ids.push(id);
			}
			const unfinished = await submitOne(store);
			const found = async (filter: Parameters<typeof store.list>[0]) =>
				(await store.list(filter, { limit: 100, order: "oldest" })).items.map((rollout) => rollout.id);
			// The one of exactly that name; else all that have it in theirs.
			expect(await found({ model: "Qwen/Qwen3-8B" })).toEqual([ids[0]]);
			expect(await found({ model: "qwen" })).toEqual(ids.slice(0, 2));
			expect(await found({ model: "noop" })).toEqual([unfinished.id]);
			expect(await found({ model: "%" })).toEqual([]);
			// Words by their beginnings, in any order, of id, task, model, labels and instruction.
			for (const text of ["größe 1", "number1 PARS", "night-1", "8b-base", ids[1]!, "it's (number1)"])
				expect(await found({ text }), text).toEqual([ids[1]]);
			for (const text of ["parser' | 'x", 'umber1 "', "arser", "*"])
				expect(await found({ text }), text).toEqual(text === "*" ? [...ids, unfinished.id] : []);
			expect(await found({ minReward: 0.5 })).toEqual(ids.slice(1));
			expect(await found({ minReward: 0.1, maxReward: 0.5 })).toEqual([ids[1]]);
			expect(await found({ maxReward: 0 })).toEqual([ids[0]]);
			expect(await found({ minDurationS: 0, maxDurationS: 60 })).toEqual(ids);
			expect(await found({ minDurationS: 60 })).toEqual([]);
			expect(await found({ since: unfinished.createdAt, status: "queued" })).toEqual([unfinished.id]);
			expect(await found({ until: (await store.row(ids[0]!))!.createdAt - 1 })).toEqual([]);
			expect(await found({ model: "qwen", text: "parser", minReward: 0.1, status: "done" })).toEqual([
				ids[1],
			]);
		});

		test("lists sorted by a figure go on where a page ended, also among equals", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const rewards = [0.5, 0, 1, 0.5, 0.5, 1 / 3, null];
			const tokens = [5, 50, 500, 5, 7, 9, 11];
			const ids: string[] = [];
			for (const [index, reward] of rewards.entries()) {
				const { id, attempt } = await running(store);
				await store.patch(id, attempt, { completionTokens: tokens[index] });
				await store.finish(id, attempt, { ...COMPLETED, reward });
				ids.push(id);
			}
			await submitOne(store);
			const walk = async (order: RolloutOrder, filter = {}) => {
				const seen: string[] = [];
				let cursor: string | undefined;
				do {
					const page = await store.list(filter, { limit: 2, order, cursor });
					seen.push(...page.items.map(({ id }) => id));
					cursor = page.next ?? undefined;
				} while (cursor !== undefined);
				return seen.map((id) => ids.indexOf(id));
			};
			expect(await walk("highest-reward")).toEqual([2, 4, 3, 0, 5, 1]);
			expect(await walk("lowest-reward")).toEqual([1, 5, 0, 3, 4, 2]);
			expect(await walk("lowest-reward", { minReward: 0.4, status: "done" })).toEqual([0, 3, 4, 2]);
			expect(await walk("most-tokens")).toEqual([2, 1, 6, 5, 4, 3, 0]);
			expect(await walk("fewest-tokens", { maxReward: 0.9 })).toEqual([0, 3, 4, 5, 1]);
			const durations = (await store.list({}, { limit: 10, order: "longest" })).items.map(
				(row) => row.finishedAt! - row.startedAt!,
			);
			expect(durations).toEqual([...durations].sort((left, right) => right - left));
			const byPosition = (await store.list({}, { limit: 1 })).next!;
			await expect(store.list({}, { limit: 1, order: "longest", cursor: byPosition })).rejects.toThrow(
				/cursor/,
			);
		});

		test("statistics count what ended, by time, with rewards, phases and tokens", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			expect(await store.statistics({}, { buckets: 10 })).toMatchObject({ counted: 0, buckets: [] });
			for (const [index, reward] of [0, 0.5, 1, null].entries()) {
				const { id, attempt } = await running(store, { request: requestFor(`task-${index % 2}`) });
				await store.patch(id, attempt, { calls: 2, promptTokens: 100, completionTokens: 10 });
				const summary = { ...SUMMARY, timings: { create: 1, agent: 2 + index } };
				await store.finish(id, attempt, {
					...{ reward, summary, failure: null },
					outcome: reward === null ? "aborted" : "completed",
				});
			}
			await running(store);
			const all = await store.statistics({}, { buckets: 1 });
			expect(all.buckets).toHaveLength(1);
			expect(all.buckets[0]).toMatchObject({
				...{ done: 4, outcomes: { completed: 3, aborted: 1 }, rewarded: 3, rewardMean: 0.5, solved: 1 },
				...{ calls: 8, promptTokens: 400, completionTokens: 40 },
				phasesMeanS: { create: 1, agent: 3.5 },
			});
			expect(all).toMatchObject({ counted: 4, isCut: false, models: [{ model: "noop", count: 4 }] });
			expect(all.rewards.filter((bar) => bar.count > 0).map((bar) => bar.from)).toEqual([0, 0.5, 0.95]);
			expect(all.durations[0]).toEqual({ from: 0, to: 1, count: 4 });
			const fine = await store.statistics({ taskId: "task-1" }, { buckets: 500 });
			expect(fine.buckets.reduce((sum, bucket) => sum + bucket.done, 0)).toBe(2);
			expect(fine.bucketMs).toBeGreaterThanOrEqual(1000);
			expect((await store.statistics({ model: "nobody" }, { buckets: 5 })).counted).toBe(0);
			const later = { since: Date.now() + 60_000, buckets: 5 };
			expect((await store.statistics({}, later)).counted).toBe(0);
		});

		test("pages neither repeat nor skip while rollouts are being added", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const before = Array.from({ length: 25 }, () => newRollout());
			await store.submit({ rollouts: before });
			for (const order of ["newest", "oldest"] as const) {
				const seen: string[] = [];
				let page: Page<{ id: string }> = { items: [], next: null };
				do {
					page = await store.list({}, { limit: 10, order, ...(page.next ? { cursor: page.next } : {}) });
					seen.push(...page.items.map((rollout) => rollout.id));
					if (seen.length <= 25) await submitOne(store);
				} while (page.next !== null && seen.length < 100);
				expect(new Set(seen).size).toBe(seen.length);
				expect(before.every((rollout) => seen.includes(rollout.id))).toBe(true);
			}
			await expect(store.list({}, { limit: 1, cursor: "no-cursor" })).rejects.toThrow(/cursor/);
		});

		test("taking a rollout raises the attempt, and the older attempt can change nothing more", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			await using other = await fixture.open();
			const first = await running(store);
			expect(first).toMatchObject({ status: "running", attempt: 1, worker: "worker-1", phase: "create" });
			expect(await store.patch(first.id, 1, { phase: "agent", calls: 3, promptTokens: 9 })).toBe(true);
			expect(await store.patch(first.id, 1, { sandboxId: "box", sessionId: "ses" })).toBe(true);
			expect(await other.get(first.id)).toMatchObject({
				phase: "agent",
				calls: 3,
				promptTokens: 9,
				completionTokens: 0,
				sandboxId: "box",
				sessionId: "ses",
			});

			const second = await other.begin(first.id, "worker-2");
			expect(second).toMatchObject({ attempt: 2, worker: "worker-2", calls: 0, sessionId: null });
			expect(await store.patch(first.id, 1, { phase: "verify" })).toBe(false);
			expect(await store.append(first.id, 1, [{ type: "note", text: "late" }])).toEqual([]);
			const failure = {
				boundary: "sandbox",
				code: "box_lost",
				message: "gone",
				retryable: true,
			} as const;
			expect(await store.requeue(first.id, 1, failure)).toBe(false);
			expect(await store.finish(first.id, 1, COMPLETED)).toBe(false);
			expect(await other.finish(first.id, 2, COMPLETED)).toBe(true);
			expect(await store.begin(first.id, "worker-3")).toBeNull();
			expect(await store.begin("ro_nobody", "worker-3")).toBeNull();
		});

		test("a rollout put back is queued with its failed attempt on the record, and can be taken again", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store);
			const failure = {
				boundary: "sandbox",
				code: "box_lost",
				message: "gone",
				retryable: true,
			} as const;
			expect(await store.requeue(id, 1, failure)).toBe(true);
			expect(await store.requeue(id, 1, failure)).toBe(false);
			expect(await store.append(id, 1, [{ type: "note", text: "late" }])).toEqual([]);
			expect(await store.get(id)).toMatchObject({
				status: "queued",
				phase: "queued",
				worker: null,
				attempt: 1,
			});
			expect(await store.begin(id, "w")).toMatchObject({ attempt: 2 });
			const events = await store.events(id, { after: 0, limit: 10 });
			expect(events.map((event) => event.type)).toEqual([
				"rollout-queued",
				"rollout-start",
				"attempt-failed",
				"rollout-start",
			]);
			expect(events[2]).toMatchObject({ attempt: 1, failure });
		});

		test("an attempt that a stopping worker handed back is numbered, but not counted as a try", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store);
			const failure = {
				boundary: "sandbox",
				code: "handed_back",
				message: "stopping",
				retryable: true,
			} as const;
			expect(await store.get(id)).toMatchObject({ attempt: 1, handedBack: 0 });
			expect(await store.requeue(id, 1, failure, { handedBack: true })).toBe(true);
			expect(await store.begin(id, "w")).toMatchObject({ attempt: 2, handedBack: 1 });
			expect(await store.requeue(id, 2, failure)).toBe(true);
			expect(await store.begin(id, "w")).toMatchObject({ attempt: 3, handedBack: 1 });
		});

		test("of many who end a rollout at once exactly one succeeds, and its end is the last event", async (context) => {
			await using fixture = await openFixture(context);
			await using one = await fixture.open();
			await using two = await fixture.open();
			const { id } = await running(one);
			const ends = await Promise.all(
				Array.from({ length: 8 }, (_, index) =>
					(index % 2 === 0 ? one : two).finish(id, 1, { ...COMPLETED, reward: index }),
				),
			);
			expect(ends.filter(Boolean)).toHaveLength(1);
			const reward = ends.indexOf(true);
			expect(await one.get(id)).toMatchObject({
				status: "done",
				phase: "done",
				outcome: "completed",
				reward,
			});
			expect(await one.append(id, 1, [{ type: "note", text: "late" }])).toEqual([]);
			const events = await two.events(id, { after: 0, limit: 100 });
			expect(events.at(-1)).toMatchObject({ type: "rollout-end", reward, attempt: 1, seq: events.length });
			expect(events.filter((event) => event.type === "rollout-end")).toHaveLength(1);
		});

		test("the summary and the failure of the end are kept", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store);
			const failure = {
				boundary: "task",
				code: "setup_failed",
				message: "exit 3",
				retryable: false,
			} as const;
			const end = { outcome: "failed", reward: null, failure, summary: SUMMARY } as const;
			await store.finish(id, 1, end);
			expect(await store.get(id)).toMatchObject({ failure, summary: SUMMARY, outcome: "failed" });
		});

		test("what one store has acknowledged, the next one opened finds", async (context) => {
			await using fixture = await openFixture(context);
			let id = "";
			{
				await using store = await fixture.open();
				id = (await running(store)).id;
				await store.append(id, 1, [{ type: "note", text: "kept" }]);
			}
			await using store = await fixture.open();
			expect(await store.get(id)).toMatchObject({ status: "running", attempt: 1 });
			expect((await store.events(id, { after: 2, limit: 10 }))[0]).toMatchObject({
				type: "note",
				text: "kept",
			});
		});
	});
}
