import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import type { BlobName } from "../../src/model/blob.ts";
import type { Store } from "../../src/store/store.ts";
import {
	batchOf,
	COMPLETED,
	groupOf,
	type OpenFixture,
	request,
	running,
	type StoreFixture,
	submitOne,
} from "./conformance.ts";
import type { Acknowledged } from "./conformance-crash-child.ts";

/** Groups, batches, traces, blobs, secrets, and what a killed process leaves. */
export function dataConformance(name: string, openFixture: OpenFixture): void {
	describe(`${name} counts groups`, () => {
		test("a group reports progress, mean, spread and pass@k by the unbiased estimator", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const submission = groupOf(6);
			const { group } = await store.submit(submission);
			expect(group).toEqual(submission.group);
			const ids = submission.rollouts.map((rollout) => rollout.id);
			expect(await store.group(group!.id)).toMatchObject({
				queued: 6,
				done: 0,
				rewardMean: null,
				passAt: {},
			});
			await end(store, ids[0]!, 1);
			await end(store, ids[1]!, 0);
			await end(store, ids[2]!, 0);
			await end(store, ids[3]!, 1);
			await end(store, ids[4]!, null);
			await store.begin(ids[5]!, "w");
			const summary = await store.group(group!.id);
			expect(summary).toMatchObject({
				n: 6,
				queued: 0,
				running: 1,
				done: 5,
				rewardMean: 0.5,
				rewardStd: 0.5,
			});
			// Two of four pass: 1 − C(2,2)/C(4,2) = 5/6; the broken one is no try.
			expect(summary?.passAt["1"]).toBeCloseTo(0.5, 12);
			expect(summary?.passAt["2"]).toBeCloseTo(5 / 6, 12);
			expect(summary?.passAt["4"]).toBe(1);
			expect(Object.keys(summary!.passAt)).toEqual(["1", "2", "4"]);
			expect(summary?.rollouts.map((rollout) => rollout.id)).toEqual(ids);
			expect(summary?.rollouts[1]).toEqual({ id: ids[1], status: "done", outcome: "completed", reward: 0 });
			expect(await store.group("gr_nobody")).toBeNull();
		});

		test("groups and batches are listed newest first, page by page", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const first = batchOf(["a", "b", "c"], 1);
			const second = batchOf(["d"], 1);
			expect((await store.submit(first)).batch).toEqual(first.batch);
			await store.submit(second);
			await store.submit(groupOf(1));
			const page = await store.listGroups({ batchId: first.batch.id, limit: 2 });
			expect(page.items.map((group) => group.taskId)).toEqual(["c", "b"]);
			const rest = await store.listGroups({ batchId: first.batch.id, limit: 2, cursor: page.next! });
			expect(rest).toMatchObject({ items: [{ taskId: "a" }], next: null });
			expect((await store.listGroups({ limit: 10 })).items).toHaveLength(5);
			const batches = await store.listBatches({ limit: 1 });
			expect(batches.items).toEqual([second.batch]);
			expect((await store.listBatches({ limit: 1, cursor: batches.next! })).items).toEqual([first.batch]);
			expect(await store.batch(first.batch.id)).toEqual(first.batch);
			expect(await store.batch("ba_nobody")).toBeNull();
		});
	});

	describe(`${name} keeps bytes`, () => {
		test("a trace is read back as the bytes appended, in order, each attempt apart", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			await using other = await fixture.open();
			const { id } = await running(store);
			const chunks = Array.from({ length: 40 }, (_, index) => Buffer.alloc(index * 997, index));
			await Promise.all(chunks.map((chunk) => store.appendTrace(id, 1, chunk)));
			await store.appendTrace(id, 2, Buffer.from("second attempt"));
			expect(await readAll(other, id, 1)).toEqual(Buffer.concat(chunks));
			expect((await readAll(other, id, 2)).toString()).toBe("second attempt");
			expect(await readAll(store, id, 3)).toEqual(Buffer.alloc(0));
		});

		test("a blob is whole, replaceable and listed by name", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			await using other = await fixture.open();
			const { id } = await submitOne(store);
			const big = Buffer.alloc(3_000_000, "paddock");
			await store.putBlob(id, 0, "files.json", big);
			await store.putBlob(id, 0, "agent.log", Buffer.from("first"));
			await store.putBlob(id, 0, "agent.log", Buffer.from("second"));
			expect(await other.listBlobs(id)).toEqual(["agent.log", "files.json"]);
			expect((await other.getBlob(id, "files.json"))?.equals(big)).toBe(true);
			expect((await other.getBlob(id, "agent.log"))?.toString()).toBe("second");
			expect(await other.getBlob(id, "diff.patch")).toBeNull();
			expect(await other.listBlobs("ro_nobody")).toEqual([]);
		});

		test("an attempt that was given up writes where nobody looks", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await running(store);
			await store.putBlob(id, 1, "agent.log", Buffer.from("first"));
			await store.putBlob(id, 1, "diff.patch", Buffer.from("first"));
			expect((await store.getBlob(id, "agent.log"))?.toString()).toBe("first");
			await store.begin(id, "another");
			await store.putBlob(id, 2, "agent.log", Buffer.from("second"));
			await store.putBlob(id, 1, "agent.log", Buffer.from("first again"));
			expect((await store.getBlob(id, "agent.log"))?.toString()).toBe("second");
			expect(await store.listBlobs(id)).toEqual(["agent.log"]);
			expect(await store.getBlob(id, "diff.patch")).toBeNull();
		});

		test("no name leads out of the store", async (context) => {
			await using fixture = await openFixture(context);
			await using store = await fixture.open();
			const { id } = await submitOne(store);
			for (const blob of ["../escape", "a/b", "nul\0"] as string[] as BlobName[]) {
				await expect(store.putBlob(id, 0, blob, Buffer.from("x"))).rejects.toThrow(/blob name/);
				await expect(store.getBlob(id, blob)).rejects.toThrow(/blob name/);
			}
			await expect(store.putBlob("../..", 0, "agent.log", Buffer.from("x"))).rejects.toThrow(/rollout id/);
			await expect((async () => store.appendTrace("../..", 1, Buffer.from("x")))()).rejects.toThrow(
				/rollout id/,
			);
		});
	});

	describe(`${name} keeps secrets`, () => {
		test("a caller's key rests sealed, survives reopening, and is erased at the end", async (context) => {
			await using fixture = await openFixture(context);
			const canary = `sk-canary-${crypto.randomUUID()}`;
			const endpoint = { type: "url", baseUrl: "http://127.0.0.1:1/v1", model: "m", apiKey: canary };
			let ids: string[] = [];
			{
				await using store = await fixture.open();
				const finished = await running(store, { request: request({ endpoint }) });
				const aborted = await submitOne(store, { request: request({ endpoint }) });
				const named = await submitOne(store, {
					request: request({ endpoint: { type: "named", name: "openai", apiKey: canary } }),
				});
				ids = [finished.id, aborted.id, named.id];
				expect(JSON.stringify([finished, aborted, named])).not.toContain(canary);
				expect(finished.request.endpoint).toEqual({ ...endpoint, apiKey: undefined, dialect: "auto" });
			}
			expect(await fixture.holds(canary)).toBe(false);
			await using store = await fixture.open();
			for (const id of ids) expect(await store.secret(id)).toBe(canary);
			await store.finish(ids[0]!, 1, COMPLETED);
			await store.requestAbort({ id: ids[1]! });
			expect(await store.secret(ids[0]!)).toBeNull();
			expect(await store.secret(ids[1]!)).toBeNull();
			expect(await store.secret(ids[2]!)).toBe(canary);
			expect(await store.secret("ro_nobody")).toBeNull();
			// The search itself must be able to find things.
			await store.begin(ids[2]!, "worker");
			await store.append(ids[2]!, 1, [{ type: "note", text: "a-word-that-is-there" }]);
			expect(await fixture.holds("a-word-that-is-there")).toBe(true);
			expect(await fixture.holds(canary)).toBe(false);
		});
	});

	describe(`${name} survives kill -9`, () => {
		test("everything a killed process was acknowledged is there, and nothing is half there", async (context) => {
			await using fixture = await openFixture(context);
			// The store exists before the children fight over it.
			await (await fixture.open())[Symbol.asyncDispose]();
			const acknowledged = (await Promise.all([20, 60].map((count) => killAfter(fixture, count)))).flat();
			expect(acknowledged.length).toBeGreaterThanOrEqual(80);
			await using store = await fixture.open();
			for (const fact of acknowledged) await expectKept(store, fact);
			const { items } = await store.list({}, { limit: 1000 });
			for (const { id } of items) {
				const events = await store.events(id, { after: 0, limit: 10_000 });
				expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
			}
		});
	});
}

async function end(store: Store, id: string, reward: number | null): Promise<void> {
	const taken = await store.begin(id, "w");
	const failure =
		reward === null
			? ({ boundary: "sandbox", code: "box_lost", message: "gone", retryable: true } as const)
			: null;
	const outcome = reward === null ? "failed" : "completed";
	await store.finish(id, taken!.attempt, { outcome, reward, failure, summary: null });
}

async function readAll(store: Store, id: string, attempt: number): Promise<Buffer> {
	const chunks: Uint8Array[] = [];
	for await (const chunk of store.readTrace(id, attempt)) chunks.push(chunk);
	return Buffer.concat(chunks);
}

/** Lets a child write until it has reported so many acknowledgements, then kills it in the middle of more. */
async function killAfter(fixture: StoreFixture, count: number): Promise<Acknowledged[]> {
	const script = fileURLToPath(new URL("./conformance-crash-child.ts", import.meta.url));
	const child: ChildProcess = spawn(process.execPath, [script, JSON.stringify(fixture.address)], {
		stdio: ["ignore", "pipe", "inherit"],
	});
	const facts: Acknowledged[] = [];
	for await (const line of createInterface({ input: child.stdout! })) {
		facts.push(JSON.parse(line) as Acknowledged);
		if (facts.length >= count) child.kill("SIGKILL");
	}
	return facts;
}

async function expectKept(store: Store, fact: Acknowledged): Promise<void> {
	if (fact.type === "submit") expect(await store.get(fact.id)).not.toBeNull();
	if (fact.type === "event") {
		expect((await store.events(fact.id, { after: fact.seq - 1, limit: 1 }))[0]).toMatchObject({
			seq: fact.seq,
			text: fact.text,
		});
	}
	if (fact.type === "blob") expect((await store.getBlob(fact.id, "agent.log"))?.length).toBe(fact.sizeBytes);
	if (fact.type === "trace")
		expect((await readAll(store, fact.id, 1)).length).toBeGreaterThanOrEqual(fact.sizeBytes);
	if (fact.type === "finish") expect(await store.get(fact.id)).toMatchObject({ status: "done", reward: 1 });
}
