import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ApiError, type Client } from "../../src/client/client.ts";
import { createApp } from "../../src/server/app.ts";
import { completedCall } from "../fixtures/calls.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { clientOf, postJson, problemOf, request } from "./caller.ts";

let paddock: IdlePaddock;
let app: ReturnType<typeof createApp>;
let client: Client;

beforeAll(async () => {
	paddock = await openIdlePaddock();
	app = createApp(paddock);
	client = clientOf(app);
});
afterAll(() => paddock[Symbol.asyncDispose]());

async function createOne(overrides: Parameters<typeof request>[0] = {}): Promise<string> {
	const { rollouts } = await client.submit(request(overrides));
	return rollouts[0]!.id;
}

describe("creating", () => {
	test("a rollout is stored when 201 comes back", async () => {
		const response = await postJson(app, "/api/v1/rollouts", { ...request(), priority: 3 });
		expect(response.status).toBe(201);
		const [row] = ((await response.json()) as Awaited<ReturnType<Client["submit"]>>).rollouts;
		expect(row).toMatchObject({ status: "queued", taskId: "echo", priority: 3 });
		expect((await client.get(row!.id)).request.task.instruction).toBe("say hello");
	});

	test("n makes a group whose summary counts its rollouts", async () => {
		const { rollouts, group } = await client.submit(request({ n: 4 }));
		expect(rollouts).toHaveLength(4);
		await paddock.complete(rollouts[0]!.id, 1);
		await paddock.complete(rollouts[1]!.id, 0);
		expect(await client.group(group!.id)).toMatchObject({ n: 4, done: 2, queued: 2, rewardMean: 0.5 });
	});

	test("a task with a large file may be tried many times: what is kept and answered does not grow with it", async () => {
		const files = [{ path: "large.txt", content: "x".repeat(1_000_000) }];
		const task = { id: "large", instruction: "look", files };
		const { rollouts, group } = await client.submit({ ...request({ n: 600 }), task });
		const listed = await app.request(`/api/v1/rollouts?group_id=${group!.id}&limit=100&order=oldest`);
		const text = await listed.text();
		expect(JSON.parse(text).items).toEqual(rollouts.slice(0, 100));
		expect(text.length).toBeLessThan(100_000);
		await client.abortGroup(group!.id);
	});

	test("the same Idempotency-Key eight times in parallel makes one rollout", async () => {
		const before = await paddock.store.counts();
		const create = () => postJson(app, "/api/v1/rollouts", request(), { "idempotency-key": "once-only" });
		const made = await Promise.all(Array.from({ length: 8 }, create));
		const bodies = await Promise.all(made.map((response) => response.json()));
		expect(new Set(bodies.map((body) => JSON.stringify(body))).size).toBe(1);
		expect((await paddock.store.counts()).queued).toBe(before.queued + 1);
	});

	test("the key may stand in the body; two different ones are refused", async () => {
		const first = await client.submit({ ...request(), idempotencyKey: "k1" });
		const repeat = await client.submit({ ...request(), idempotencyKey: "k1" });
		expect(repeat.rollouts[0]!.id).toBe(first.rollouts[0]!.id);
		const both = { ...request(), idempotencyKey: "k1" };
		const problem = await problemOf(postJson(app, "/api/v1/rollouts", both, { "idempotency-key": "k2" }));
		expect(problem).toMatchObject({ status: 400, code: "contradictory_arguments" });
	});

	test("a key that comes back with another body, or at the other route, is a conflict", async () => {
		const key = { "idempotency-key": "for-one-thing" };
		expect((await postJson(app, "/api/v1/rollouts", request(), key)).status).toBe(201);
		const { task, endpoint } = request();
		const reordered = { n: 1, endpoint, task: { instruction: task.instruction, id: task.id } };
		expect((await postJson(app, "/api/v1/rollouts", reordered, key)).status).toBe(201);

		const conflict = { status: 409, code: "idempotency_conflict" };
		const other = postJson(app, "/api/v1/rollouts", request({ id: "other" }), key);
		expect(await problemOf(other)).toMatchObject(conflict);
		const batch = { tasks: [task], endpoints: [endpoint] };
		expect(await problemOf(postJson(app, "/api/v1/batches", batch, key))).toMatchObject(conflict);

		const batchKey = { "idempotency-key": "for-a-batch" };
		expect((await postJson(app, "/api/v1/batches", batch, batchKey)).status).toBe(201);
		const single = postJson(app, "/api/v1/rollouts", request(), batchKey);
		expect(await problemOf(single)).toMatchObject(conflict);
	});

	test("what was acknowledged is told again while the queue is full, and adds nothing to it", async () => {
		await using small = await openIdlePaddock({ queueLimit: 3 });
		const crowded = clientOf(createApp(small));
		const { task, endpoint } = request();
		const batch = { tasks: [task], endpoints: [endpoint], n: 2, idempotencyKey: "batch" };
		const single = { ...request(), idempotencyKey: "single" };
		const firsts = [await crowded.submitBatch(batch), await crowded.submit(single)];
		expect([await crowded.submitBatch(batch), await crowded.submit(single)]).toEqual(firsts);
		expect((await small.store.counts()).queued).toBe(3);
		await expect(crowded.submit(request(), { queueForMs: 0 })).rejects.toMatchObject({ code: "queue_full" });
	});

	test("a repeat that overtakes its first request is not refused for the room that one takes", async () => {
		await using small = await openIdlePaddock({ queueLimit: 1 });
		const crowded = clientOf(createApp(small));
		const once = { ...request(), idempotencyKey: "twice" };
		const made = await Promise.all([crowded.submit(once), crowded.submit(once), crowded.submit(once)]);
		expect(new Set(made.map(({ rollouts }) => rollouts[0]!.id)).size).toBe(1);
	});

	test("more rollouts at once than may ever wait are refused for good, not for now", async () => {
		await using small = await openIdlePaddock({ queueLimit: 5 });
		const crowded = createApp(small);
		const { task, endpoint } = request();
		const batch = { tasks: [task, task], endpoints: [endpoint], n: 3 };
		const asked: [string, object][] = [
			["/api/v1/rollouts", request({ n: 6 })],
			["/api/v1/batches", batch],
		];
		for (const [path, body] of asked) {
			const refused = await postJson(crowded, path, body);
			expect(refused.headers.has("retry-after")).toBe(false);
			expect(await problemOf(refused)).toMatchObject({
				status: 422,
				code: "above_queue_limit",
				detail: expect.stringMatching(/6 rollouts .* 5/),
			});
		}
		expect((await postJson(crowded, "/api/v1/rollouts", request({ n: 5 }))).status).toBe(201);
	});

	test("a batch is tasks × endpoints × n, reports its progress and is aborted as one", async () => {
		const { batch, rolloutIds } = await client.submitBatch({
			tasks: ["t1", "t2"].map((id) => ({ id, instruction: "do it" })),
			endpoints: ["noop", "oracle"].map((policy) => ({ type: "policy" as const, policy })),
			n: 2,
			labels: { suite: "s" },
		});
		expect(rolloutIds).toHaveLength(8);
		await paddock.complete(rolloutIds[0]!, 1);
		const progress = { size: 8, done: 1, queued: 7, outcomes: { completed: 1 }, rewardMean: 1 };
		expect(await client.batch(batch.id)).toMatchObject(progress);
		expect((await client.groups({ batch_id: batch.id })).items).toHaveLength(4);
		expect((await client.abortBatch(batch.id)).ids.toSorted()).toEqual(rolloutIds.slice(1).toSorted());
		expect(await client.abortBatch(batch.id)).toMatchObject({ aborted: false, ids: [] });
	});

	test("groups and batches sum up the tokens of what is finished, weighted by tokens", async () => {
		const { batch, rolloutIds } = await client.submitBatch({
			tasks: [{ id: "t1", instruction: "do it" }],
			endpoints: [{ type: "policy" as const, policy: "noop" }],
			n: 3,
		});
		const first = completedCall();
		const onward = {
			promptIds: [1, 2, 3, 4, 5, 6],
			completionIds: [7, 8],
			index: 1,
			usage: { promptTokens: 6, completionTokens: 2 },
		};
		await paddock.complete(rolloutIds[0]!, 1, [first, completedCall(onward)]);
		const forked = completedCall({ index: 1, promptIds: [1, 2, 9], completionIds: [7, 8] });
		await paddock.complete(rolloutIds[1]!, 0, [first, forked]);
		const sums = {
			rollouts: 2,
			trainable: 2,
			samples: 3,
			trainedTokens: 8,
			tokensToTrainOver: 8 + 5 + 5,
			mainShare: 6 / 8,
			continuity: 1 / 2,
			breaks: { history_changed: 1 },
		};
		expect(await client.batchTokens(batch.id)).toMatchObject(sums);
		const [group] = (await client.groups({ batch_id: batch.id })).items;
		expect(await client.groupTokens(group!.id)).toMatchObject(sums);
		const unknown = await problemOf(app.request("/api/v1/groups/none/tokens"));
		expect(unknown).toMatchObject({ status: 404, code: "not_found" });
	});

	test("a full queue answers 429 with Retry-After, and a burst cannot slip past the limit", async () => {
		await using small = await openIdlePaddock({ queueLimit: 5 });
		const crowded = createApp(small);
		const burst = Array.from({ length: 12 }, () => postJson(crowded, "/api/v1/rollouts", request()));
		const answers = await Promise.all(burst);
		const accepted = answers.filter((answer) => answer.status === 201).length;
		expect(accepted).toBeGreaterThan(0);
		for (let room = 5 - accepted; room > 0; room--) await clientOf(crowded).submit(request());
		expect((await small.store.counts()).queued).toBe(5);
		const refused = await postJson(crowded, "/api/v1/rollouts", request());
		expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
		expect(await problemOf(refused)).toMatchObject({ status: 429, code: "queue_full" });
		const error = await clientOf(crowded)
			.submit(request(), { queueForMs: 0 })
			.catch((reason: unknown) => reason);
		expect(error).toBeInstanceOf(ApiError);
		expect(error).toMatchObject({ code: "queue_full", retryAfterS: 10 });
	});
});

describe("listing", () => {
	test("pages follow each other without a gap or a repeat, also when rollouts are added meanwhile", async () => {
		const ids: string[] = [];
		for (let index = 0; index < 7; index++) ids.push(await createOne({ labels: { pages: "yes" } }));
		const seen: string[] = [];
		for await (const row of client.listAll({ label: "pages=yes", limit: 3 })) {
			seen.push(row.id);
			await createOne({ labels: { pages: "yes" } });
		}
		expect(seen).toEqual(ids.toReversed());
	});

	test("a row leaves out the task's content and names the endpoint", async () => {
		await createOne();
		const { items } = await client.list({ limit: 1 });
		expect(items[0]).not.toHaveProperty("request");
		expect(items[0]).toMatchObject({ endpoint: { type: "policy", policy: "noop" }, sandbox: "local" });
	});

	test("filters narrow the list", async () => {
		const id = await createOne({ id: "only-me" });
		await paddock.complete(id, 1);
		const found = await client.list({ task_id: "only-me", status: "done", outcome: "completed" });
		expect(found.items.map((row) => row.id)).toEqual([id]);
		expect((await client.list({ task_id: "only-me", status: "queued" })).items).toEqual([]);
	});

	test("a cursor that is not ours is a bad request", async () => {
		const problem = await problemOf(app.request("/api/v1/rollouts?cursor=nonsense"));
		expect(problem).toMatchObject({ status: 400, code: "bad_cursor" });
	});
});

describe("ending", () => {
	test("finalize hands back the result, or says that it is not there yet", async () => {
		const id = await createOne();
		expect((await client.finalize(id, 0)).error).toBeTruthy();
		const waiting = client.finalize(id, 30);
		await paddock.complete(id, 0.5);
		expect(await waiting).toMatchObject({ rollout_id: id, reward: 0.5, outcome: "completed", error: null });
	});

	test("a queued rollout is aborted at once, and only once", async () => {
		const id = await createOne();
		expect(await client.abort(id)).toEqual({ aborted: true, ids: [id], reason: null });
		expect(await client.get(id)).toMatchObject({ status: "done", outcome: "aborted" });
		expect(await client.abort(id)).toMatchObject({ aborted: false, ids: [] });
	});

	test("messages and answers reach whoever runs the rollout; an ended one answers 409", async () => {
		const id = await createOne();
		await client.send(id, "more", "ann");
		await client.answerPermission(id, "per_1", { reply: "once" });
		await client.answerQuestion(id, "que_1", { answers: [["yes"]] });
		expect((await paddock.store.commands(id, 0)).map(({ command }) => command)).toEqual([
			{ type: "send", text: "more", by: "ann" },
			{ type: "permission", requestId: "per_1", reply: "once", by: "http" },
			{ type: "question", requestId: "que_1", answers: [["yes"]], by: "http" },
		]);
		await paddock.complete(id, 1);
		await expect(client.send(id, "hello?")).rejects.toMatchObject({ status: 409, code: "rollout_ended" });
	});
});
