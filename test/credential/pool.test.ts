import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { HeldCredential } from "../../src/credential/hold.ts";
import { holdFromPool } from "../../src/credential/pool.ts";
import { resolveBy } from "../../src/credential/resolver.ts";
import type { Credentials } from "../../src/store/credentials.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { findPostgres, requirePostgres, startPostgres } from "../fixtures/postgres.ts";

const QUESTION = { ask: "red team", rolloutId: "ro_1", attempt: 1, taskId: "t", labels: { team: "red" } };

const open = { embedded: openEmbedded, postgres: openPostgres };

describe.for(["embedded", "postgres"] as const)("%s", (kind) => {
	let stack: AsyncDisposableStack;
	let credentials: Credentials;
	beforeAll(async () => {
		stack = new AsyncDisposableStack();
		if (kind === "embedded" || findPostgres() !== null) ({ credentials } = await open[kind](stack));
	});
	afterAll(() => stack.disposeAsync());
	beforeEach(async (context) => {
		if (kind === "postgres") requirePostgres(context);
		for (const { label } of await credentials.list()) await credentials.remove(label, { force: true });
	});

	async function add(label: string, pool: string | null, capacity = 1): Promise<void> {
		const endpoint = { baseUrl: "http://127.0.0.1:1/v1", model: "m", dialect: "plain" } as const;
		const secret = `sk-${label}-12345678`;
		await credentials.add({ label, kind: "api-key", endpoint, capacity, pool, secret });
	}

	const labelOf = (held: HeldCredential) => held.hold.credential.label;

	test("of fifty who want one of five at once, five get one each, and the others are told to wait", async () => {
		for (const label of ["a", "b", "c", "d", "e"]) await add(label, "team");
		await add("stranger", "other");
		const tries = await Promise.allSettled(
			Array.from({ length: 50 }, (_, index) => holdFromPool(credentials, "team", `user-${index}`)),
		);
		const held = tries.flatMap((tried) => (tried.status === "fulfilled" ? [tried.value] : []));
		expect(held.map(labelOf).sort()).toEqual(["a", "b", "c", "d", "e"]);
		for (const tried of tries)
			if (tried.status === "rejected") expect(tried.reason).toMatchObject({ code: "credential_held" });
		for (const one of held) await one[Symbol.asyncDispose]();
	});

	test("everyone in a pool has its turn: the one that rested longest is next, never used before all", async () => {
		for (const label of ["a", "b", "c"]) await add(label, "team");
		const turns: string[] = [];
		for (let turn = 0; turn < 9; turn += 1) {
			await using held = await holdFromPool(credentials, "team", "user");
			turns.push(labelOf(held));
		}
		expect(turns.slice(0, 3).sort()).toEqual(["a", "b", "c"]);
		expect(turns.slice(3)).toEqual([...turns.slice(0, 3), ...turns.slice(0, 3)]);
	});

	test("the one with most room is taken first", async () => {
		await add("wide", "team", 10);
		await add("narrow", "team", 2);
		const held: HeldCredential[] = [];
		for (let each = 0; each < 12; each += 1) held.push(await holdFromPool(credentials, "team", `u-${each}`));
		expect(held.map(labelOf).filter((label) => label === "wide")).toHaveLength(10);
		await expect(holdFromPool(credentials, "team", "more")).rejects.toMatchObject({
			code: "credential_held",
		});
		for (const one of held) await one[Symbol.asyncDispose]();
	});

	test("dead ones are passed over, limited ones come last, and a hold that ran out is taken over", async () => {
		for (const label of ["dead", "limited", "good"]) await add(label, "team");
		for (const state of ["dead", "limited"] as const) {
			const hold = await credentials.acquire(state, "judge", 1_000);
			await credentials.judge(hold, { state, reason: "said so", isDoubtful: false });
			await credentials.release(hold);
		}
		const gone = await credentials.acquire("good", "gone", 0);
		await using first = await holdFromPool(credentials, "team", "one");
		expect(labelOf(first)).toBe("good");
		expect(first.hold.fence).toBeGreaterThan(gone.fence);
		expect(await credentials.save(gone, "from beyond")).toBeNull();
		await using second = await holdFromPool(credentials, "team", "two");
		expect(labelOf(second)).toBe("limited");
	});

	test("a login whose holder was killed comes in its turn once the hold is over", async () => {
		for (const label of ["killed", "rested"]) await add(label, "team");
		await credentials.acquire("killed", "gone", 0);
		await credentials.release(await credentials.acquire("rested", "somebody", 60_000));
		await using held = await holdFromPool(credentials, "team", "user");
		expect(labelOf(held)).toBe("killed");
	});

	test("a pool without members, or with dead ones alone, says so", async () => {
		await expect(holdFromPool(credentials, "nobody", "u")).rejects.toMatchObject({ code: "unknown_pool" });
		await add("dead", "team");
		const hold = await credentials.acquire("dead", "judge", 1_000);
		await credentials.judge(hold, { state: "dead", reason: "said so", isDoubtful: false });
		await credentials.release(hold);
		await expect(holdFromPool(credentials, "team", "u")).rejects.toMatchObject({ code: "credential_dead" });
	});
});

async function folder(stack: AsyncDisposableStack): Promise<string> {
	const home = await mkdtemp(join(tmpdir(), "paddock-pool-"));
	stack.defer(() => rm(home, { recursive: true }));
	return home;
}

async function openEmbedded(stack: AsyncDisposableStack): Promise<Store> {
	return stack.use(await openSqliteStore({ home: await folder(stack) }));
}

async function openPostgres(stack: AsyncDisposableStack): Promise<Store> {
	const { url } = stack.use(await startPostgres({ fsync: "off" }));
	return stack.use(await openPostgresStore({ url, home: await folder(stack), connections: 5 }));
}

let home = "";
beforeAll(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-resolver-"));
});
afterAll(() => rm(home, { recursive: true }));

test("a program of the operator's names the credential, and sees none of our keys", async () => {
	const program = join(home, "resolver");
	const script = `#!/bin/sh\nread -r question\nenv > "${home}/env"\necho "$question" > "${home}/question"\necho cred:red\n`;
	await writeFile(program, script);
	await chmod(program, 0o755);
	process.env.PADDOCK_TEST_KEY = "sk-canary-resolver";
	expect(await resolveBy(program, QUESTION)).toBe("cred:red");
	delete process.env.PADDOCK_TEST_KEY;
	expect(JSON.parse(await readFile(join(home, "question"), "utf8"))).toEqual(QUESTION);
	expect(await readFile(join(home, "env"), "utf8")).not.toContain("sk-canary-resolver");
});

test.for([
	["says nothing", "exit 0", "neither"],
	["fails", "echo cred:red; exit 3", "ended with 3"],
	["answers with an address", "echo https://thief.example/v1", "neither"],
])("a resolver that %s names nothing", async ([, body, reason]) => {
	const program = join(home, "bad-resolver");
	await writeFile(program, `#!/bin/sh\n${body}\n`);
	await chmod(program, 0o755);
	await expect(resolveBy(program, QUESTION)).rejects.toMatchObject({
		code: "credential_unresolved",
		message: expect.stringContaining(reason!),
	});
	await rm(program);
	await expect(resolveBy(program, QUESTION)).rejects.toMatchObject({ code: "credential_unresolved" });
});

test("a service of the operator's may name a pool", async () => {
	const asked: unknown[] = [];
	const server = createServer(async (request, response) => {
		asked.push(JSON.parse(Buffer.concat(await request.toArray()).toString()));
		response.end("pool:team\n");
	}).listen(0, "127.0.0.1");
	await new Promise((resolve) => server.once("listening", resolve));
	const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/which`;
	expect(await resolveBy(url, QUESTION)).toBe("pool:team");
	expect(asked).toEqual([QUESTION]);
	server.closeAllConnections();
	server.close();
	await expect(resolveBy(url, QUESTION)).rejects.toMatchObject({ code: "credential_unresolved" });
});
