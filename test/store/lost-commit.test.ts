import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, type TestContext, test } from "vitest";
import { refreshLogin, tokensIn } from "../../src/credential/refresh.ts";
import { isOutage } from "../../src/errors.ts";
import { patient } from "../../src/store/patience.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres.ts";
import type { Store } from "../../src/store/store.ts";
import { addLogin, storedRefresh } from "../credential/stage.ts";
import { openOauthProvider } from "../fakes/oauth-provider.ts";
import { type CommitCutter, startCommitCutter } from "../fixtures/commit-cutter.ts";
import { type Postgres, requirePostgres, startPostgres } from "../fixtures/postgres.ts";
import { COMPLETED, newRollout, running, submitOne } from "./conformance.ts";

let server: Promise<Postgres> | null = null;
let schemas = 0;

afterAll(async () => (await server)?.[Symbol.asyncDispose]());

/** As a worker sees it, over a way that can be cut at a COMMIT. */
async function openStage(
	context: TestContext,
): Promise<{ store: Store; cutter: CommitCutter; openDirectly(): Promise<Store> } & AsyncDisposable> {
	requirePostgres(context);
	server ??= startPostgres({ fsync: "off" });
	await using stack = new AsyncDisposableStack();
	const home = await mkdtemp(join(tmpdir(), "paddock-store-"));
	stack.defer(() => rm(home, { recursive: true }));
	const postgres = await server;
	const cutter = stack.use(await startCommitCutter(postgres));
	const schema = `test_${++schemas}`;
	const open = (url: string) => openPostgresStore({ url, schema, home, connections: 3 });
	const plain = stack.use(await open(cutter.url));
	const owned = stack.move();
	return {
		store: patient(plain),
		cutter,
		openDirectly: () => open(postgres.url),
		[Symbol.asyncDispose]: () => owned.disposeAsync(),
	};
}

describe.each(["answer", "question"] as const)("when the %s of a COMMIT is lost", (loss) => {
	test("a finished rollout keeps its reward, ends once, and is announced once", async (context) => {
		await using stage = await openStage(context);
		const { store, cutter } = stage;
		const { id } = await running(store);
		const heard: string[] = [];
		using _listening = store.onCommit(({ type }) => heard.push(type));
		const cut = cutter.cutNext(loss);
		expect(await store.finish(id, 1, COMPLETED)).toBe(true);
		await cut;
		expect(await store.row(id)).toMatchObject({ status: "done", reward: 1, attempt: 1 });
		const events = await store.events(id, { after: 2, limit: 10 });
		expect(events.map(({ type }) => type)).toEqual(["rollout-end"]);
		expect(heard).toEqual(["rollout-end"]);
	});

	test("an attempt is begun once, not twice", async (context) => {
		await using stage = await openStage(context);
		const { store, cutter } = stage;
		const { id } = await submitOne(store);
		const cut = cutter.cutNext(loss);
		expect(await store.begin(id, "worker")).toMatchObject({ id, attempt: 1, status: "running" });
		await cut;
		expect(await store.row(id)).toMatchObject({ attempt: 1 });
	});

	test("the tokens of a refresh are stored once, and nothing is put aside", async (context) => {
		await using stage = await openStage(context);
		await using provider = await openOauthProvider();
		const { store, cutter } = stage;
		const { credentials } = store;
		await addLogin(store, provider, "login");
		const hold = await credentials.acquire("login", "test", 60_000);
		const { holder, fence } = hold;
		let cut = Promise.resolve();
		// The next COMMIT is that of the new tokens.
		provider.onRotation = () => {
			cut = cutter.cutNext(loss);
		};
		await refreshLogin(credentials, {
			...{ label: "login", holder, fence, stale: tokensIn(hold).access, ttlMs: 0 },
		});
		await cut;
		expect(await credentials.find("login")).toMatchObject({ version: 2, quarantine: [], state: "unknown" });
		expect(provider.isNewest(await storedRefresh(store, "login"))).toBe(true);
		expect(provider).toMatchObject({ rotations: 1, reuses: 0 });
	});

	test("events, calls and blobs are stored once and whole", async (context) => {
		await using stage = await openStage(context);
		const { store, cutter } = stage;
		const { id } = await running(store);
		let cut = cutter.cutNext(loss);
		const texts = ["a", "b", "c"];
		const appended = await Promise.all(texts.map((text) => store.append(id, 1, [{ type: "note", text }])));
		await cut;
		expect(await store.events(id, { after: 2, limit: 10 })).toEqual(appended.flat());
		cut = cutter.cutNext(loss);
		await store.appendTrace(id, 1, Buffer.from("one"));
		await cut;
		await store.appendTrace(id, 1, Buffer.from("two"));
		expect(Buffer.concat(await Array.fromAsync(store.readTrace(id, 1))).toString()).toBe("onetwo");
		cut = cutter.cutNext(loss);
		await store.putBlob(id, 1, "diff.patch", Buffer.from("+42"));
		await cut;
		expect(String(await store.getBlob(id, "diff.patch"))).toBe("+42");
	});
});

test("a submission whose answer was lost is acknowledged, not made twice", async (context) => {
	await using stage = await openStage(context);
	const { store, cutter } = stage;
	const cut = cutter.cutNext("answer");
	const { fresh } = await store.submit({ rollouts: [newRollout()] });
	await cut;
	expect(fresh).toBe(true);
	expect(await store.counts()).toEqual({ queued: 1, running: 0, done: 0 });
});

test("a process that is frozen inside its submission holds up nobody else's for long", async (context) => {
	await using stage = await openStage(context);
	await using other = await stage.openDirectly();
	const cut = stage.cutter.cutNext("word");
	const frozen = stage.store.submit({ rollouts: [newRollout()] });
	const ended = expect(frozen).rejects.toSatisfy(isOutage);
	await cut;
	expect((await other.submit({ rollouts: [newRollout()] })).fresh).toBe(true);
	await ended;
	expect(await other.counts()).toEqual({ queued: 1, running: 0, done: 0 });
});

test("an event costs its writer three questions and its reader one", async (context) => {
	await using stage = await openStage(context);
	const { store, cutter } = stage;
	const { id } = await running(store);
	await store.append(id, 1, [{ type: "note", text: "the connection is there" }]);
	const before = cutter.answered();
	const [event] = await store.append(id, 1, [{ type: "note", text: "told" }]);
	expect(cutter.answered() - before).toBe(3);
	expect(await store.events(id, { after: event!.seq - 1, limit: 10 })).toMatchObject([{ text: "told" }]);
	expect(cutter.answered() - before).toBe(4);
});
