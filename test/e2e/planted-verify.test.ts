import { afterEach, beforeEach, expect, test } from "vitest";
import { holdCredential } from "../../src/credential/hold.ts";
import { writeLogin } from "../../src/credential/login.ts";
import { openRefresher } from "../../src/credential/refresher/refresher.ts";
import { verifyCredential } from "../../src/credential/verify.ts";
import { challenge } from "../../src/gateway/engines/challenge.ts";
import { type ProbeDeps, probeLogin } from "../../src/rollout/login/probe-login.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import type { Backend } from "../../src/sandbox/sandbox.ts";
import { openPlantedStage, type PlantedStage } from "../credential/planted/stage.ts";
import { storedRefresh } from "../credential/stage.ts";
import { type OauthProvider, openOauthProvider } from "../fakes/oauth-provider.ts";
import { ownLogin, PROVIDER_HOST, wayTo } from "../fakes/own-provider.ts";

let stage: PlantedStage;
let provider: OauthProvider;
let backend: Backend;
let deps: ProbeDeps;
beforeEach(async () => {
	stage = await openPlantedStage();
	provider = await openOauthProvider();
	backend = await openLocalBackend({ wayOut: wayTo(provider) });
	deps = { credentials: stage.store.credentials, backend: async () => backend, warn: () => {} };
	await stage.store.credentials.add({
		...{ label: "own", kind: "login", endpoint: null, capacity: 1 },
		planted: { provider: "acme", model: "model", hosts: [PROVIDER_HOST] },
		secret: writeLogin(ownLogin(provider, "model")),
	});
});
afterEach(async () => {
	await backend[Symbol.asyncDispose]();
	await provider[Symbol.asyncDispose]();
	await stage[Symbol.asyncDispose]();
});

async function verify() {
	await using refresher = openRefresher({ type: "sqlite", home: "/nonexistent" });
	const { credentials } = deps;
	return await verifyCredential(
		{
			credentials,
			refresher,
			probe: challenge,
			probeLogin: (held, signal) => probeLogin(deps, held, signal),
		},
		"own",
	);
}

test("a login whose agent gets an answer is alive, and what it refreshed for it is stored", async () => {
	provider.revokeAccess();
	expect(await verify()).toMatchObject({ state: "alive", reason: null, version: 2, holders: [] });
	expect(provider).toMatchObject({ rotations: 1, reuses: 0 });
	expect(provider.isNewest(await storedRefresh(stage.store, "own"))).toBe(true);
});

test("a login that its provider has ended is dead, whatever keys this machine has, and no reason holds a token", async () => {
	provider.revokeAll();
	const keys = {
		OPENAI_API_KEY: "sk-living-0001",
		OPENCODE_AUTH_CONTENT: '{"acme":{"type":"api","key":"sk-1"}}',
	};
	Object.assign(process.env, keys);
	try {
		const verdict = await verify();
		expect(verdict).toMatchObject({ state: "dead", reason: expect.stringContaining("[hidden]") });
		for (const token of provider.issued) expect(JSON.stringify(verdict)).not.toContain(token);
	} finally {
		for (const name of Object.keys(keys)) delete process.env[name];
	}
});

test("a stored login that is dead gives way to one that was put aside and lives", async () => {
	const { credentials } = deps;
	const hold = await credentials.acquire("own", "late", 0);
	await credentials.acquire("own", "next", 0);
	provider.revokeAll();
	const living = ownLogin(provider, "model");
	await credentials.quarantine(hold, writeLogin(living), "the hold was lost");
	expect(await verify()).toMatchObject({ state: "alive", quarantine: [], version: 2 });
	expect(provider.isNewest(await storedRefresh(stage.store, "own"))).toBe(true);
});

test("when the time is up everything has ended, the new token is stored, and nobody knows whether it is good", async () => {
	provider.revokeAccess();
	const stop = new AbortController();
	// The time is up just when the provider has handed out a new token and the agent asks with it.
	provider.onModelCall = (isGood) => {
		if (isGood) stop.abort();
		return isGood ? new Promise(() => {}) : undefined;
	};
	await using held = await holdCredential(deps.credentials, "own", "verify");
	expect(await probeLogin(deps, held, stop.signal)).toEqual({
		type: "unclear",
		message: "it was not answered in time",
	});
	await held[Symbol.asyncDispose]();
	expect(provider.rotations).toBe(1);
	expect(provider.isNewest(await storedRefresh(stage.store, "own"))).toBe(true);
});
