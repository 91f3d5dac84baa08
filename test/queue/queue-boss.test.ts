import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { afterAll, describe, expect, type TestContext, test } from "vitest";
import { openBossQueue } from "../../src/queue/boss/boss.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres.ts";
import { type Postgres, requirePostgres, startPostgres } from "../fixtures/postgres.ts";
import { queueConformance } from "./conformance.ts";
import { finish, type QueueFixture, runAll, startChild, submitted } from "./fixture.ts";

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
		address: { type: "boss", url, schema, home, heartbeatS: 10 },
		store,
		open: () =>
			openBossQueue({
				...{ url, schema: `${schema}_queue`, store, pollMs: 200, heartbeatS: 10 },
				onError: () => undefined,
			}),
		[Symbol.asyncDispose]: async () => {
			await store[Symbol.asyncDispose]();
			await rm(home, { recursive: true });
		},
	};
}

async function inDatabase<Row extends pg.QueryResultRow>(url: string, sql: string): Promise<Row[]> {
	const client = new pg.Client(url);
	await client.connect();
	try {
		return (await client.query<Row>(sql)).rows;
	} finally {
		await client.end();
	}
}

function claims(address: { url: string; schema: string }): Promise<{ job_id: string; session: number }[]> {
	return inDatabase(address.url, `SELECT job_id, session FROM ${address.schema}_queue.paddock_claims`);
}

queueConformance("the pg-boss queue", openFixture);

test("pg-boss's own table is still what is asked behind its back", async (context) => {
	await using fixture = await openFixture(context);
	await using _queue = await fixture.open();
	const { url, schema } = fixture.address as { url: string; schema: string };
	const columns = await inDatabase<{ name: string; type: string }>(
		url,
		`SELECT attname AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
		WHERE attrelid = '${schema}_queue.job'::regclass AND attname IN ('id', 'name', 'singleton_key', 'retry_count', 'state')
		ORDER BY attname`,
	);
	expect(columns).toEqual([
		{ name: "id", type: "uuid" },
		{ name: "name", type: "text" },
		{ name: "retry_count", type: "integer" },
		{ name: "singleton_key", type: "text" },
		{ name: "state", type: `${schema}_queue.job_state` },
	]);
	// Their order is what `state < 'active'` means.
	const states = await inDatabase<{ state: string }>(
		url,
		`SELECT unnest(enum_range(NULL::${schema}_queue.job_state))::text AS state`,
	);
	expect(states.map(({ state }) => state)).toEqual([
		...["created", "retry", "active", "completed", "cancelled", "failed"],
	]);
});

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

describe("with heartbeats that come too late to tell anything", () => {
	const heartbeatS = 3_600;

	async function openSilent(fixture: QueueFixture) {
		const { url, schema, home } = fixture.address as { url: string; schema: string; home: string };
		const address = { type: "boss", url, schema, home, heartbeatS } as const;
		const options = { url, schema: `${schema}_queue`, store: fixture.store, heartbeatS, pollMs: 200 };
		return { address, queue: await openBossQueue({ ...options, onError: () => undefined }) };
	}

	test("a killed worker's job is free all the same, and so is that of the one who took it over", async (context) => {
		await using fixture = await openFixture(context);
		const { address, queue } = await openSilent(fixture);
		await using _closing = queue;
		const [rolloutId] = (await submitted(fixture.store, 1)) as [string];
		const first = await startChild(address, rolloutId);
		const second = startChild(address, rolloutId);
		first.process.kill("SIGKILL");
		(await second).process.kill("SIGKILL");
		expect(await runAll(fixture.store, queue, 1, { capacity: 1 })).toEqual([rolloutId]);
		expect(await claims(address)).toEqual([]);
	});

	test("a worker that lost its connection keeps its job", async (context) => {
		await using fixture = await openFixture(context);
		const { address, queue } = await openSilent(fixture);
		await using _closing = queue;
		const [rolloutId] = (await submitted(fixture.store, 1)) as [string];
		const child = await startChild(address, rolloutId);
		try {
			const others: string[] = [];
			await using _worker = await queue.work({
				workerId: "wk_other",
				capacity: 1,
				handle: async (job) => {
					others.push(job.rolloutId);
					return "done";
				},
			});
			const [before] = await claims(address);
			const itsLock = `locktype = 'advisory' AND objsubid = 2 AND objid = ${before!.session}`;
			await inDatabase(address.url, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE ${itsLock}`);
			await expect
				.poll(async () => (await claims(address))[0]?.session, { timeout: 30_000 })
				.toBeGreaterThan(before!.session);
			// Long enough for the other to have looked as often as it needs to call somebody dead.
			await delay(5_000);
			expect(others).toEqual([]);
			expect(await claims(address)).toHaveLength(1);
		} finally {
			child.process.kill("SIGKILL");
		}
	});
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
	const letters = () =>
		inDatabase(url, `SELECT data->>'rolloutId' AS id FROM ${schema}_queue.job WHERE name = 'rollouts_dead'`);
	await expect.poll(letters, { timeout: 30_000 }).toEqual([{ id: rolloutId }]);
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
