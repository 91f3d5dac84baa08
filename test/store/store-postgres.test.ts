import { existsSync } from "node:fs";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, expect, type TestContext, test, vi } from "vitest";
import { openPostgresStore } from "../../src/store/postgres/postgres.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { type Postgres, requirePostgres, startPostgres } from "../fixtures/postgres.ts";
import { request, running, submitOne, watchUntil } from "./conformance.ts";
import { agentConformance } from "./conformance-agents.ts";
import { conversationConformance } from "./conformance-conversations.ts";
import { credentialConformance } from "./conformance-credentials.ts";
import { dataConformance } from "./conformance-data.ts";
import { eventConformance } from "./conformance-events.ts";
import { rolloutConformance } from "./conformance-rollouts.ts";
import { type RestingFixture, taskConformance } from "./conformance-tasks.ts";
import { vaultConformance } from "./conformance-vault.ts";

const DAY = 86_400_000;

let server: Promise<Postgres> | null = null;
let schemas = 0;

afterAll(async () => (await server)?.[Symbol.asyncDispose]());

/** One server for the file, one schema for each test. */
async function openFixture(
	context: TestContext,
): Promise<RestingFixture & { postgres: Postgres; schema: string }> {
	requirePostgres(context);
	server ??= startPostgres({ fsync: "off" });
	const postgres = await server;
	const home = await mkdtemp(join(tmpdir(), "paddock-store-"));
	const schema = `test_${++schemas}`;
	const tamper = async (sql: string) => {
		const client = new pg.Client({ connectionString: postgres.url, options: `-c search_path=${schema}` });
		await client.connect();
		await client.query(sql);
		await client.end();
	};
	return {
		postgres,
		schema,
		address: { type: "postgres", url: postgres.url, schema, home },
		open: (options) => openPostgresStore({ url: postgres.url, schema, home, connections: 3, ...options }),
		holds: async (words) => {
			const dump = await postgres.dump(schema);
			return dump.includes(words) || dump.includes(Buffer.from(words).toString("hex"));
		},
		sizeBytes: async () => (await postgres.dump(schema)).length,
		tamper,
		setVersion: (version) => tamper(`UPDATE schema_version SET version = ${version}`),
		[Symbol.asyncDispose]: () => rm(home, { recursive: true }),
	};
}

function openAt(fixture: { postgres: Postgres; schema: string }, home: string): Promise<Store> {
	return openPostgresStore({ url: fixture.postgres.url, schema: fixture.schema, home, connections: 3 });
}

const WITH_KEY = { type: "url", baseUrl: "http://127.0.0.1:1/v1", model: "m", apiKey: "sk-own" };

rolloutConformance("the PostgreSQL store", openFixture);
conversationConformance("the PostgreSQL store", openFixture);
eventConformance("the PostgreSQL store", openFixture);
dataConformance("the PostgreSQL store", openFixture);
taskConformance("the PostgreSQL store", openFixture);
vaultConformance("the PostgreSQL store", openFixture);
credentialConformance("the PostgreSQL store", openFixture);
agentConformance("the PostgreSQL store", openFixture);

test("a machine whose clock is a day ahead, or behind, neither takes a credential too early nor keeps it too long", async (context) => {
	await using fixture = await openFixture(context);
	await using store = await fixture.open();
	const { credentials } = store;
	const endpoint = { baseUrl: "https://acme.example/v1", model: "m", dialect: "plain" } as const;
	await credentials.add({ label: "login", kind: "login", endpoint, capacity: 1, secret: "secret-1" });
	const now = Date.now();
	try {
		for (const [mine, others] of [
			[now, now + DAY],
			[now + DAY, now],
			[now - DAY, now],
		]) {
			vi.setSystemTime(mine!);
			const hold = await credentials.acquire("login", "mine", 60_000);
			vi.setSystemTime(others!);
			expect((await credentials.find("login"))!.holders).toMatchObject([{ holder: "mine" }]);
			await expect(credentials.acquire("login", "other", 1)).rejects.toMatchObject({
				code: "credential_held",
			});
			await credentials.renew(hold, 0, { exact: true });
			expect((await credentials.find("login"))!.holders).toEqual([]);
			await credentials.release(await credentials.acquire("login", "other", 60_000));
		}
	} finally {
		vi.useRealTimers();
	}
});

test("ten stores that open an empty database at once all come up on one schema", async (context) => {
	await using fixture = await openFixture(context);
	const stores = await Promise.all(Array.from({ length: 10 }, () => fixture.open()));
	const { id } = await submitOne(stores[0]!);
	for (const store of stores) expect((await store.get(id))?.id).toBe(id);
	await Promise.all(stores.map((store) => store[Symbol.asyncDispose]()));
});

test("of machines that open an empty database at once one makes the key, and no other makes its own", async (context) => {
	await using fixture = await openFixture(context);
	const homes = Array.from({ length: 6 }, (_, index) => join(fixture.address.home, `machine-${index}`));
	const opened = await Promise.allSettled(homes.map((home) => openAt(fixture, home)));
	const refused = opened.filter((result) => result.status === "rejected");
	expect(refused).toHaveLength(5);
	for (const { reason } of refused) {
		expect(reason).toMatchObject({
			code: "bad_key_file",
			message: expect.stringContaining("copy the key file"),
		});
	}
	expect(homes.filter((home) => existsSync(join(home, "secret.key")))).toHaveLength(1);
	for (const result of opened) if (result.status === "fulfilled") await result.value[Symbol.asyncDispose]();
});

test("a machine with another key file may not use the database until it has the first one's", async (context) => {
	await using fixture = await openFixture(context);
	await using store = await fixture.open();
	const { id } = await submitOne(store, { request: request({ endpoint: WITH_KEY }) });
	const other = join(fixture.address.home, "other");
	await (await openSqliteStore({ home: other }))[Symbol.asyncDispose]();
	await expect(openAt(fixture, other)).rejects.toMatchObject({ code: "bad_key_file" });

	await copyFile(join(fixture.address.home, "secret.key"), join(other, "secret.key"));
	await using second = await openAt(fixture, other);
	expect(await second.secret(id)).toBe(WITH_KEY.apiKey);
});

test("a watcher whose connection was cut hears of what happened meanwhile", async (context) => {
	await using fixture = await openFixture(context);
	await using store = await fixture.open();
	await using other = await fixture.open();
	const { id } = await running(store);
	const ready = watchUntil(store, id, async () => (await store.get(id))?.phase === "setup");
	await other.patch(id, 1, { phase: "setup" });
	await ready;
	const heard = watchUntil(store, id, async () => (await store.get(id))?.phase === "verify");
	const client = new pg.Client(fixture.postgres.url);
	await client.connect();
	const { rowCount } = await client.query(
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE $1",
		[`LISTEN "paddock_${fixture.schema}"`],
	);
	await client.end();
	expect(rowCount).toBe(1);
	await other.patch(id, 1, { phase: "verify" });
	await heard;
});

test("a store whose connections are all cut, again and again, goes on and keeps what it acknowledged", async (context) => {
	await using fixture = await openFixture(context);
	await using store = await fixture.open();
	const { id } = await running(store);
	const cutter = new pg.Client(fixture.postgres.url);
	await cutter.connect();
	let acknowledged = 0;
	for (let cut = 0; cut < 5; cut++) {
		const appends = Promise.allSettled(
			Array.from({ length: 40 }, (_, index) =>
				store.append(id, 1, [{ type: "note", text: `${cut}.${index}` }]),
			),
		);
		await cutter.query(
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'paddock' AND pid <> pg_backend_pid()",
		);
		acknowledged += (await appends).filter((append) => append.status === "fulfilled").length;
	}
	await cutter.end();
	const [last] = await store.append(id, 1, [{ type: "note", text: "last" }]);
	expect(last!.seq).toBeGreaterThanOrEqual(3 + acknowledged);
	const events = await store.events(id, { after: 0, limit: 1000 });
	expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
});

test("with a shared folder, traces and blobs lie there and not in the database", async (context) => {
	await using fixture = await openFixture(context);
	const { home } = fixture.address;
	const open = () =>
		openPostgresStore({
			url: fixture.postgres.url,
			schema: fixture.schema,
			home,
			blobDirectory: join(home, "shared"),
		});
	await using one = await open();
	await using two = await open();
	const { id } = await running(one);
	await one.putBlob(id, 1, "agent.log", Buffer.from("in-the-folder"));
	await one.appendTrace(id, 1, Buffer.from("in-the-folder"));
	expect((await two.getBlob(id, "agent.log"))?.toString()).toBe("in-the-folder");
	for await (const chunk of two.readTrace(id, 1)) expect(Buffer.from(chunk).toString()).toBe("in-the-folder");
	expect(await fixture.holds("in-the-folder")).toBe(false);
});

test("a database that is not there is said in one sentence, without the password", async (context) => {
	await using fixture = await openFixture(context);
	const url = "postgresql://user:hunter2@127.0.0.1:1/none";
	const opening = openPostgresStore({ url, home: fixture.address.home });
	await expect(opening).rejects.toThrow(/PostgreSQL cannot be reached: .*PADDOCK_DATABASE_URL/);
	await expect(opening).rejects.not.toThrow(/hunter2/);
});
