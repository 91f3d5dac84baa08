import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { writeLogin } from "../../src/credential/login.ts";
import { openRefresher, type Refresher } from "../../src/credential/refresher/refresher.ts";
import { verifyCredential } from "../../src/credential/verify.ts";
import { challenge } from "../../src/gateway/engines/challenge.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { type OauthProvider, openOauthProvider } from "../fakes/oauth-provider.ts";
import { openUpstream, type Reaction } from "../fakes/upstream.ts";
import { addLogin, storedRefresh } from "./stage.ts";

const CANARY = "sk-canary-verify-0011";

let home = "";
let store: Store;
let refresher: Refresher;
let provider: OauthProvider;
beforeAll(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-verify-"));
	store = await openSqliteStore({ home });
	refresher = openRefresher({ type: "sqlite", home });
});
afterAll(async () => {
	await refresher[Symbol.asyncDispose]();
	await store[Symbol.asyncDispose]();
	await rm(home, { recursive: true });
});
beforeEach(async () => {
	provider = await openOauthProvider();
});
afterEach(async () => {
	await provider[Symbol.asyncDispose]();
	for (const { label } of await store.credentials.list())
		await store.credentials.remove(label, { force: true });
});

function verify(label: string, limitMs?: number) {
	const { credentials } = store;
	const probeLogin = async () => ({ type: "unclear", message: "no login is planted here" }) as const;
	return verifyCredential({ credentials, refresher, probe: challenge, probeLogin }, label, limitMs);
}

async function addKey(baseUrl: string): Promise<void> {
	const endpoint = { baseUrl, model: "m", dialect: "plain" } as const;
	await store.credentials.add({ label: "key", kind: "api-key", endpoint, capacity: 5, secret: CANARY });
}

function answers(status: number, content: string): Reaction {
	return ({ response, headers }) => {
		const choices = [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }];
		const body = status === 200 ? { choices } : { error: { message: `${content} ${headers.authorization}` } };
		response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
	};
}

test("a login whose model answers is alive, and given back", async () => {
	await addLogin(store, provider, "login");
	expect(await verify("login")).toMatchObject({ state: "alive", reason: null, holders: [], version: 1 });
	expect((await store.credentials.find("login"))!.lastVerifiedAt).not.toBeNull();
});

test("a token that was taken back is refreshed for the question, and the new one is stored", async () => {
	await addLogin(store, provider, "login");
	provider.revokeAccess();
	expect(await verify("login")).toMatchObject({ state: "alive", version: 2 });
	expect(provider.isNewest(await storedRefresh(store, "login"))).toBe(true);
});

test("the new token is stored even when the question is then not answered", async () => {
	await using upstream = await openUpstream(answers(500, "broken"));
	const endpoint = { baseUrl: upstream.baseUrl, model: "m", dialect: "plain" } as const;
	await addLogin(store, provider, "login", { endpoint });
	upstream.react(({ response }) => {
		// Refused once, so that it is refreshed; then the endpoint is out of order.
		response.writeHead(provider.rotations === 0 ? 401 : 500).end("no");
	});
	expect(await verify("login")).toMatchObject({ state: "unknown", version: 2 });
	expect(provider.isNewest(await storedRefresh(store, "login"))).toBe(true);
});

test("a login that its provider has ended is dead; a new look finds it alive again when it is", async () => {
	await addLogin(store, provider, "login");
	const refresh = await storedRefresh(store, "login");
	provider.revokeAccess();
	provider.instead = (response) =>
		response.writeHead(400, { "content-type": "application/json" }).end('{"error":"invalid_grant"}');
	expect(await verify("login")).toMatchObject({
		state: "dead",
		reason: expect.stringContaining("invalid_grant"),
	});
	provider.instead = null;
	expect(provider.isNewest(refresh)).toBe(true);
	expect(await verify("login")).toMatchObject({ state: "alive", reason: null });
});

test("a stored login that is dead gives way to one that was put aside and lives; of two the newest is tried first", async () => {
	const { credentials } = store;
	await addLogin(store, provider, "login");
	const late = await credentials.acquire("login", "late", 0);
	await credentials.acquire("login", "next", 0);
	provider.revokeAll();
	await credentials.quarantine(late, writeLogin(provider.login("acme")), "the hold was lost");
	const older = (await credentials.find("login"))!.quarantine[0]!.fingerprint;
	await credentials.quarantine(late, writeLogin(provider.login("acme")), "the hold was lost");
	const verdict = await verify("login");
	expect(verdict).toMatchObject({ state: "alive", reason: null, version: 2, quarantine: [] });
	expect(verdict.fingerprint).not.toBe(older);
	expect(provider.isNewest(await storedRefresh(store, "login"))).toBe(true);
});

test("when what was put aside is as dead as what is stored, the login is dead", async () => {
	const { credentials } = store;
	await addLogin(store, provider, "login");
	const late = await credentials.acquire("login", "late", 0);
	await credentials.quarantine(late, writeLogin(provider.login("acme")), "the hold was lost");
	provider.revokeAll();
	expect(await verify("login")).toMatchObject({ state: "dead", quarantine: [], version: 2 });
});

test("a login in use is left alone", async () => {
	await addLogin(store, provider, "login");
	const hold = await store.credentials.acquire("login", "somebody", 60_000);
	await expect(verify("login")).rejects.toMatchObject({ code: "credential_held" });
	expect(provider.rotations).toBe(0);
	await store.credentials.release(hold);
});

test("while it is asked nobody else gets it, and afterwards the next one does", async () => {
	await addLogin(store, provider, "login");
	const { credentials } = store;
	const meanwhile: unknown[] = [];
	provider.onModelCall = async () => {
		const trying = credentials.acquire("login", "somebody", 60_000);
		meanwhile.push(await trying.catch((error: { code: string }) => error.code));
	};
	expect(await verify("login")).toMatchObject({ state: "alive", holders: [] });
	expect(meanwhile).toEqual(["credential_held"]);
	await credentials.release(await credentials.acquire("login", "somebody", 60_000));
});

test.for([
	["401", 401, "dead"],
	["429", 429, "limited"],
	["402", 402, "limited"],
	["500", 500, "unknown"],
	["403, which a firewall says, too,", 403, "unknown"],
] as const)(
	"an API key that gets a %s is judged by it, and no reason holds the key",
	async ([, status, state]) => {
		await using upstream = await openUpstream(answers(status, "no"));
		await addKey(upstream.baseUrl);
		const verdict = await verify("key");
		expect(verdict.state).toBe(state);
		expect(verdict.reason).toContain(String(status));
		expect(JSON.stringify(verdict)).not.toContain(CANARY);
	},
);

test("the third 403 in a row is death", async () => {
	await using upstream = await openUpstream(answers(403, "no"));
	await addKey(upstream.baseUrl);
	const states: string[] = [];
	for (let look = 0; look < 3; look += 1) states.push((await verify("key")).state);
	expect(states).toEqual(["unknown", "unknown", "dead"]);
});

test("an endpoint that repeats the question, or is away, proves nothing", async () => {
	const upstream = await openUpstream(({ response, body }) => {
		const [message] = body.messages as { content: string }[];
		const choices = [{ index: 0, message: { role: "assistant", content: message!.content } }];
		response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ choices }));
	});
	await addKey(upstream.baseUrl);
	expect(await verify("key")).toMatchObject({
		state: "unknown",
		reason: expect.stringContaining("something else"),
	});
	await upstream[Symbol.asyncDispose]();
	expect(await verify("key")).toMatchObject({
		state: "unknown",
		reason: expect.stringContaining("cannot be asked"),
	});
});

test("one that does not answer in time is unknown, and given back", async () => {
	await using upstream = await openUpstream(() => {});
	await addKey(upstream.baseUrl);
	expect(await verify("key", 300)).toMatchObject({
		state: "unknown",
		reason: expect.stringContaining("in time"),
		holders: [],
	});
});
