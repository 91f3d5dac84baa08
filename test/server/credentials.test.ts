import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import { AUTH_FILE } from "../../src/credential/login.ts";
import { createApp } from "../../src/server/app.ts";
import { plantedLogin } from "../credential/planted/stage.ts";
import { openOauthProvider } from "../fakes/oauth-provider.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { task } from "../fixtures/script.ts";
import { clientOf, postJson } from "./caller.ts";

const CANARY = "sk-canary-c0ffee991122";
const KEY = { label: "team", apiKey: CANARY, baseUrl: "https://api.openai.com", model: "gpt-4o-mini" };

let paddock: IdlePaddock;
let app: ReturnType<typeof createApp>;
let client: Client;

beforeAll(async () => {
	paddock = await openIdlePaddock();
	app = createApp(paddock);
	client = clientOf(app);
});
afterAll(() => paddock[Symbol.asyncDispose]());

test("a key can be stored, seen and forgotten, and no answer holds it", async () => {
	const added = await client.addApiKey(KEY);
	expect(added).toMatchObject({
		label: "team",
		kind: "api-key",
		endpoint: { baseUrl: "https://api.openai.com/v1" },
	});
	expect(await client.credential("team")).toEqual(added);
	expect((await client.credentials()).items).toEqual([added]);
	expect(JSON.stringify(added)).not.toContain(CANARY);
	await expect(client.addApiKey(KEY)).rejects.toMatchObject({ status: 409, code: "credential_exists" });
	expect(await client.removeCredential("team")).toEqual({ removed: true });
	await expect(client.credential("team")).rejects.toMatchObject({ status: 404, code: "unknown_credential" });
	await expect(client.removeCredential("team")).rejects.toMatchObject({ status: 404 });
});

test("a key that is refused is not repeated in the refusal", async () => {
	for (const wrong of [
		{ apiKey: `${CANARY} ${CANARY}` },
		{ baseUrl: "ftp://x" },
		{ extra: CANARY },
		{ label: "No!" },
	]) {
		const response = await postJson(app, "/api/v1/credentials", { ...KEY, ...wrong });
		expect([400, 422]).toContain(response.status);
		expect(await response.text()).not.toContain(CANARY);
	}
	expect((await client.credentials()).items).toEqual([]);
});

test("a login can be stored, verified and purged, and no answer holds a token", async () => {
	await using provider = await openOauthProvider();
	const entry = JSON.parse(String(provider.login("acme").get(AUTH_FILE))).acme;
	const { type: _type, ...auth } = entry;
	const { baseUrl, tokenUrl, clientId } = provider;
	const place = { provider: "acme", baseUrl, tokenUrl, clientId, model: "large", dialect: "plain" } as const;
	const added = await client.addLogin({ label: "ada", auth, pool: "team", ...place });
	expect(added).toMatchObject({
		kind: "login",
		capacity: 1,
		pool: "team",
		login: { provider: "acme", clientId },
	});
	const alive = await client.verifyCredential("ada");
	expect(alive).toMatchObject({ state: "alive", holders: [] });
	expect(JSON.stringify([added, alive])).not.toMatch(/refresh-|access-/);
	const abroad = { label: "ben", auth, ...place, tokenUrl: "http://auth.acme.example/token" };
	await expect(client.addLogin(abroad)).rejects.toMatchObject({ code: "bad_token_url" });
	expect(await client.purgeCredentials()).toEqual({ removed: [], inUse: [] });
	const hold = await paddock.store.credentials.acquire("ada", "somebody", 60_000);
	await expect(client.verifyCredential("ada")).rejects.toMatchObject({
		status: 409,
		code: "credential_held",
	});
	expect(await client.purgeCredentials({ pool: "team" })).toEqual({ removed: [], inUse: ["ada"] });
	expect(await client.purgeCredentials({ pool: "team", force: true })).toEqual({
		removed: ["ada"],
		inUse: [],
	});
	expect(await paddock.store.credentials.save(hold, "late")).toBeNull();
	await expect(client.verifyCredential("ada")).rejects.toMatchObject({ status: 404 });
});

test("machines that boxes can be placed on are listed, and what is wrong with one is an answer", async () => {
	const away = {
		...{ name: "away", address: "nobody@127.0.0.1:1", keyFile: "/nowhere/key", knownHostsFile: null },
		...{ fingerprint: `SHA256:${"A".repeat(43)}`, allowPlain: false },
	};
	expect((await client.hosts()).items).toEqual([]);
	await paddock.addHost(away);
	expect((await client.hosts()).items).toEqual([{ ...away, agent: null }]);
	expect(await client.checkHost("away")).toMatchObject({
		ok: false,
		checks: [{ name: "login", ok: false, detail: expect.stringContaining("/nowhere/key") }],
	});
	await expect(client.checkHost("nobody")).rejects.toMatchObject({ status: 404, code: "unknown_host" });
	await paddock.removeHost("away");
	await expect(paddock.removeHost("away")).rejects.toMatchObject({ code: "unknown_host" });
});

test("what is quarantined is refused to rollouts and shown to people, and is free again when somebody decides", async () => {
	const { credentials } = paddock.store;
	await credentials.add(plantedLogin("ada"));
	const late = await credentials.acquire("ada", "late", 0);
	await credentials.acquire("ada", "next", 0);
	await credentials.quarantine(late, "the newest login", "the hold was lost");
	const aside = { fence: late.fence, at: expect.any(Number), reason: "the hold was lost" };
	expect(await client.credential("ada")).toMatchObject({ state: "quarantined", quarantine: [aside] });
	const endpoint = { type: "named", name: "cred:ada" } as const;
	await expect(client.submit({ task: task(), endpoint })).rejects.toMatchObject({
		status: 409,
		code: "credential_quarantined",
	});
	expect(await client.freeCredential("ada", true)).toMatchObject({
		...{ state: "unknown", quarantine: [], holders: [], version: 2 },
	});
	expect((await credentials.acquire("ada", "x", 0)).secret).toBe("the newest login");
	await expect(client.freeCredential("ada", true)).rejects.toMatchObject({
		status: 409,
		code: "nothing_quarantined",
	});
	await expect(client.freeCredential("nobody")).rejects.toMatchObject({ status: 404 });
	await client.removeCredential("ada", true);
});

test.for([
	["a box that has no wall", { sandbox: "ssh" }, "no wall"],
	[
		"a task with a network of its own",
		{ task: task({ box: { network: "internet" } }) },
		"network of its own",
	],
	[
		"a task with hosts of its own",
		{ task: task({ box: { network: { allow: ["a.example"] } } }) },
		"network of its own",
	],
] as const)("a login that would lie in %s is refused before anything is stored", async ([, more, words]) => {
	await paddock.store.credentials.add(plantedLogin("ada"));
	const endpoint = { type: "named", name: "cred:ada" } as const;
	await expect(client.submit({ task: task(), endpoint, ...more })).rejects.toMatchObject({
		status: 422,
		code: "planting_refused",
		message: expect.stringContaining(words),
	});
	await client.removeCredential("ada");
});

test("a login that would lie in a conversation's box is refused: what is there is kept as it is", async () => {
	await paddock.store.credentials.add(plantedLogin("ada"));
	const talking = client.converse({ endpoint: { type: "named", name: "cred:ada" } });
	await expect(talking).rejects.toMatchObject({ code: "planting_refused" });
	await client.removeCredential("ada");
});
