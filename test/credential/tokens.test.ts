import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { holdCredential } from "../../src/credential/hold.ts";
import { refreshLogin } from "../../src/credential/refresh.ts";
import { openRefresher, type Refresher } from "../../src/credential/refresher/refresher.ts";
import { LoginTokens } from "../../src/credential/tokens.ts";
import { OutageError } from "../../src/errors.ts";
import type { Hold } from "../../src/store/credentials.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { type OauthProvider, openOauthProvider } from "../fakes/oauth-provider.ts";
import { changed } from "../rollout/fixture.ts";
import { addLogin, storedRefresh } from "./stage.ts";

let home = "";
let store: Store;
let refresher: Refresher;
let provider: OauthProvider;
let labels = 0;

beforeAll(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-tokens-"));
	store = await openSqliteStore({ home });
	refresher = openRefresher({ type: "sqlite", home });
});
afterAll(async () => {
	await refresher[Symbol.asyncDispose]();
	await store[Symbol.asyncDispose]();
	await rm(home, { recursive: true });
});

/** A login that is held, and its tokens. */
async function hold(options: { lifetimeS?: number } = {}) {
	const stack = new AsyncDisposableStack();
	provider = stack.use(await openOauthProvider(options));
	const label = `login-${++labels}`;
	await addLogin(store, provider, label);
	const held = stack.use(await holdCredential(store.credentials, label, "test"));
	const tokens = stack.use(new LoginTokens(store.credentials, held, refresher));
	return { label, held, tokens, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

async function callModel(access: string): Promise<number> {
	const headers = { authorization: `Bearer ${access}` };
	return (await fetch(`${provider.baseUrl}/chat/completions`, { method: "POST", headers, body: "{}" }))
		.status;
}

test("a token that is good is used as it is, and nothing is refreshed", async () => {
	await using stage = await hold();
	expect(await callModel(await stage.tokens.fresh())).toBe(200);
	expect(provider.rotations).toBe(0);
});

test("a token about to end is refreshed once for all who want it, and stored before anybody has it", async () => {
	await using stage = await hold({ lifetimeS: 30 });
	let storedFirst: boolean | null = null;
	const before = stage.held.hold.credential.version;
	const all = await Promise.all(
		Array.from({ length: 20 }, async () => {
			const access = await stage.tokens.fresh();
			storedFirst ??= (await store.credentials.find(stage.label))!.version === before + 1;
			return access;
		}),
	);
	expect(new Set(all).size).toBe(1);
	expect(provider.rotations).toBe(1);
	expect(storedFirst).toBe(true);
	expect(await callModel(all[0]!)).toBe(200);
});

test("a token that was refused before its time is replaced", async () => {
	await using stage = await hold();
	const access = await stage.tokens.fresh();
	provider.revokeAccess();
	expect(await callModel(access)).toBe(401);
	const next = await stage.tokens.fresh(access);
	expect(await callModel(next)).toBe(200);
	// Whoever comes late with the same complaint gets the new one, and costs no other.
	expect(await stage.tokens.fresh(access)).toBe(next);
	expect(provider.rotations).toBe(1);
});

test("a login that its provider has ended is dead from then on, with the reason", async () => {
	await using stage = await hold();
	provider.revokeAll();
	const trying = stage.tokens.fresh(await stage.tokens.fresh());
	await expect(trying).rejects.toMatchObject({ code: "credential_dead", retryable: false });
	expect(await store.credentials.find(stage.label)).toMatchObject({
		state: "dead",
		reason: expect.stringContaining("invalid_grant"),
	});
	await expect(store.credentials.acquire(stage.label, "next", 1)).rejects.toMatchObject({
		code: "credential_dead",
	});
});

test.for([
	["an outage", 503, "provider_unreachable"],
	["a rate limit", 429, "rate_limited"],
	["a page of somebody else's", 200, "provider_unreachable"],
] as const)("%s is not death: the same token is tried again", async ([, status, code]) => {
	await using stage = await hold();
	const access = await stage.tokens.fresh();
	provider.instead = (response) => response.writeHead(status).end("<html>");
	await expect(stage.tokens.fresh(access)).rejects.toMatchObject({ code, retryable: true });
	expect(await store.credentials.find(stage.label)).toMatchObject({ state: "unknown", version: 1 });
	provider.instead = null;
	expect(await callModel(await stage.tokens.fresh(access))).toBe(200);
});

test("a redirect of the token endpoint is not followed: the token goes nowhere else", async () => {
	await using stage = await hold();
	await using thief = await openOauthProvider();
	const access = await stage.tokens.fresh();
	let caught = 0;
	thief.instead = (response) => {
		caught += 1;
		response.end("{}");
	};
	provider.instead = (response) => response.writeHead(307, { location: thief.tokenUrl }).end();
	await expect(stage.tokens.fresh(access)).rejects.toMatchObject({ code: "provider_unreachable" });
	expect(caught).toBe(0);
});

test("a holder that lost the login gets no more tokens, and spends none", async () => {
	await using stage = await hold();
	const access = await stage.tokens.fresh();
	await store.credentials.remove(stage.label, { force: true });
	await expect(stage.tokens.fresh(access)).rejects.toMatchObject({ code: "credential_lost" });
	expect(provider.rotations).toBe(0);
});

test("a refresh that is under way ends before the hold does", async () => {
	let release = () => {};
	const answering = new Promise<void>((resolve) => {
		release = resolve;
	});
	const stage = await hold();
	const { label } = stage;
	const asked = new Promise<void>((resolve) => {
		provider.onRotation = async () => {
			resolve();
			await answering;
		};
	});
	const refreshing = stage.tokens.fresh(await stage.tokens.fresh());
	await asked;
	const closing = stage.tokens[Symbol.asyncDispose]().then(() => "closed");
	expect(await Promise.race([closing, Promise.resolve("waits")])).toBe("waits");
	release();
	expect(await closing).toBe("closed");
	await refreshing;
	await stage.held[Symbol.asyncDispose]();
	expect(provider.isNewest(await storedRefresh(store, label))).toBe(true);
	await stage[Symbol.asyncDispose]();
});

test("a store that is away for long after the provider's answer, or broken, gets the newest tokens when it is back", async () => {
	await using stage = await hold();
	const { label, held } = stage;
	const { credentials } = store;
	const { holder, fence } = held.hold;
	const now = performance.now.bind(performance);
	const troubles = [new OutageError("away"), new Error("broken")];
	const passing = changed(credentials, {
		save: async (...what) => {
			const trouble = troubles.shift();
			if (trouble === undefined) return await credentials.save(...what);
			// Each lasts for minutes, and the hold lasts longer.
			vi.spyOn(performance, "now").mockImplementation(() => now() + (2 - troubles.length) * 7 * 60_000);
			throw trouble;
		},
	});
	const stale = await stage.tokens.fresh();
	const { credential } = (await credentials.look({ label, holder, fence }))!;
	const ends: number[] = [];
	provider.onRotation = async () => {
		ends.push((await credentials.find(label))!.holders[0]!.expiresAt - Date.now());
	};
	await refreshLogin(passing, { label, holder, fence, stale, ttlMs: 60_000 });
	vi.restoreAllMocks();
	expect(await credentials.find(label)).toMatchObject({ version: credential.version + 1 });
	expect(ends[0]).toBeGreaterThan(15 * 60_000);
	await held[Symbol.asyncDispose]();
	expect(provider.isNewest(await storedRefresh(store, label))).toBe(true);
});

test("tokens that come when the hold is another's by now are put aside, where the newest one is not lost", async () => {
	await using stage = await hold();
	const { label, held } = stage;
	const { credentials } = store;
	let next: Hold | null = null;
	provider.onRotation = async () => {
		// As if nothing had been heard of its holder for minutes.
		await credentials.renew(held.hold, 0, { exact: true });
		next = await credentials.acquire(label, "next", 60_000);
	};
	await expect(stage.tokens.fresh(await stage.tokens.fresh())).rejects.toMatchObject({
		code: "credential_lost",
	});
	expect(await credentials.find(label)).toMatchObject({
		...{ state: "quarantined", version: 1 },
		quarantine: [{ fence: held.hold.fence }],
	});
	await credentials.release(next!);
	// The stored token still opens the model, so nobody has to try the spent one: but the one put aside is the newest.
	const probe = await credentials.acquire(label, "probe", 60_000, { evenDead: true });
	expect((await credentials.promote(probe))?.credential).toMatchObject({ version: 2, quarantine: [] });
	await credentials.release(probe);
	expect(provider.isNewest(await storedRefresh(store, label))).toBe(true);
});
