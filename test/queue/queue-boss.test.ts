import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, expect, type TestContext, test } from "vitest";
import { openBossQueue } from "../../src/queue/boss.ts";
import { openPostgresStore } from "../../src/store/postgres.ts";
import { type Postgres, requirePostgres, startPostgres } from "../fixtures/postgres.ts";
import { queueConformance } from "./conformance.ts";
import { finish, type QueueFixture, startChild, submitted } from "./fixture.ts";

let server: Promise<Postgres> | null = null;
let schemas = 0;

afterAll(async () => (await server)?.[Symbol.asyncDispose]());

async function openFixture(context: TestContext): Promise<QueueFixture> {
	requirePostgres(context);
	server ??= startPostgres({ fsync: "off" });
	const { url } = await server;
	const home = await mkdtemp(join(tmpdir(), "paddock-queue-"));
	const schema = `test_${++schemas}`;
	const store = await openPostgresStore({ url, schema, home, connections: 3 });
	return {
		address: { type: "boss", url, schema, home },
		store,
		open: () =>
			openBossQueue({ url, schema: `${schema}_queue`, store, pollMs: 200, onError: () => undefined }),
		[Symbol.asyncDispose]: async () => {
			await store[Symbol.asyncDispose]();
			await rm(home, { recursive: true });
		},
	};
}

queueConformance("the pg-boss queue", openFixture);

test("a worker that fell silent and wakes up is told that its job is another's", async (context) => {
	await using fixture = await openFixture(context);
	await using queue = await fixture.open();
	const [rolloutId] = (await submitted(fixture.store, 1)) as [string];
	const child = await startChild(fixture.address, rolloutId);
	try {
		child.process.kill("SIGSTOP");
		const taken = Promise.withResolvers<void>();
		const release = Promise.withResolvers<void>();
		await using worker = await queue.work({
			workerId: "wk_awake",
			capacity: 1,
			handle: async (job) => {
				taken.resolve();
				await release.promise;
				await finish(fixture.store, job.rolloutId);
				return "done";
			},
		});
		await taken.promise;
		child.process.kill("SIGCONT");
		await child.says(`lost ${rolloutId}`);
		// The sleeper's claim is void: the job is still ours, and ours alone to end.
		expect(worker.running).toBe(1);
		release.resolve();
		await worker.drain(60_000);
		expect(await queue.depth()).toBe(0);
		expect(await fixture.store.get(rolloutId)).toMatchObject({ status: "done", attempt: 1 });
	} finally {
		child.process.kill("SIGKILL");
	}
});

test("a job that comes back too often becomes a dead letter, for a person to look at", async (context) => {
	await using fixture = await openFixture(context);
	const { url, schema } = fixture.address as { url: string; schema: string };
	const options = { url, schema: `${schema}_queue`, store: fixture.store, onError: () => undefined };
	await using queue = await openBossQueue({ ...options, retryLimit: 1, pollMs: 200 });
	const [rolloutId] = (await submitted(fixture.store, 1)) as [string];
	await queue.enqueue([{ rolloutId, priority: 0 }]);
	let starts = 0;
	await using _worker = await queue.work({
		workerId: "wk_broken",
		capacity: 1,
		handle: async () => {
			starts += 1;
			return "retry";
		},
	});
	const client = new pg.Client(url);
	await client.connect();
	const letters = async () => {
		const sql = `SELECT data->>'rolloutId' AS id FROM ${schema}_queue.job WHERE name = 'rollouts_dead'`;
		return (await client.query<{ id: string }>(sql)).rows.map((row) => row.id);
	};
	await expect.poll(letters, { timeout: 30_000 }).toEqual([rolloutId]);
	await client.end();
	expect(starts).toBe(2);
	expect(await queue.depth()).toBe(0);
});

test("five queues that open an empty database at once all come up", async (context) => {
	await using fixture = await openFixture(context);
	const queues = await Promise.all(Array.from({ length: 5 }, () => fixture.open()));
	for (const queue of queues) expect(await queue.depth()).toBe(0);
	await Promise.all(queues.map((queue) => queue[Symbol.asyncDispose]()));
});

test("a database that is not there is said in one sentence", async (context) => {
	await using fixture = await openFixture(context);
	const url = "postgresql://user:hunter2@127.0.0.1:1/none";
	const opening = openBossQueue({ url, store: fixture.store, onError: () => undefined });
	await expect(opening).rejects.toThrow(/PostgreSQL cannot be reached/);
	await expect(opening).rejects.not.toThrow(/hunter2/);
});
