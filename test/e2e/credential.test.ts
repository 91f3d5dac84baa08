import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { AUTH_FILE } from "../../src/credential/login.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import { openOauthProvider } from "../fakes/oauth-provider.ts";
import { filesHolding } from "../fixtures/evidence.ts";
import { openTestPaddock, type TestPaddock } from "../fixtures/paddock.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";

let station: TestPaddock;
beforeAll(async () => {
	station = await openTestPaddock();
});
afterAll(async () => await station?.[Symbol.asyncDispose]());

test("a stored API key is an endpoint: the provider gets it, and nothing that is written holds it", async () => {
	const canary = "sk-canary-5b1d77e0c4a2";
	await using model = await openScriptedModel([say("done")], { apiKey: canary });
	const { baseUrl, model: name } = model.endpoint;
	const { paddock } = station;
	await paddock.addApiKey({ label: "team", apiKey: `${canary}\n`, baseUrl, model: name, dialect: "vllm" });
	const result = await station.run({ task: task(), endpoint: { type: "named", name: "cred:team" } });
	expect(result).toMatchObject({ outcome: "completed", failure: null });
	expect(result.proxy_turns.length).toBeGreaterThan(0);
	expect(await paddock.credential("team")).toMatchObject({ holders: [], lastUsedAt: expect.any(Number) });
	expect(JSON.stringify([result, await paddock.credentials()])).not.toContain(canary);
	expect(await filesHolding(station.home, canary)).toEqual([]);
});

test("a login is carried by the gateway: its tokens rotate while the agent works, and none is in its box or on disk", async () => {
	const look =
		"env; cat ~/.local/share/opencode/auth.json; find / -name auth.json -not -path '/proc/*' 2>/dev/null";
	await using model = await openScriptedModel([bash(look), bash("echo again"), say("done")], {
		apiKey: "sk-behind",
	});
	await using provider = await openOauthProvider({ callsPerToken: 1, models: model.endpoint });
	const { baseUrl, tokenUrl, clientId } = provider;
	const auth = JSON.parse(String(provider.login("acme").get(AUTH_FILE))).acme;
	const { paddock } = station;
	const terms = { provider: "acme", tokenUrl, clientId };
	const place = {
		label: "ada",
		pool: "team",
		baseUrl,
		model: model.endpoint.model,
		dialect: "vllm",
	} as const;
	await paddock.addLogin({ ...place, auth, terms });
	const result = await station.run({ task: task(), endpoint: { type: "named", name: "pool:team" } });
	expect(result).toMatchObject({ outcome: "completed", failure: null });
	expect(result.proxy_turns.length).toBeGreaterThanOrEqual(3);
	expect(provider).toMatchObject({ reuses: 0, overlaps: 0 });
	expect(provider.rotations).toBeGreaterThanOrEqual(2);
	expect(await paddock.credential("ada")).toMatchObject({ holders: [], version: provider.rotations + 1 });
	expect(JSON.stringify(result)).not.toMatch(/refresh-[0-9a-f]{32}|access-[0-9a-f]{32}/);
	for (const token of provider.issued) expect(await filesHolding(station.home, token)).toEqual([]);
});

test("a login that its provider ends while the agent works fails the rollout with that reason, and no token in it", async () => {
	await using model = await openScriptedModel([bash("echo one"), say("done")], { apiKey: "sk-behind" });
	await using provider = await openOauthProvider({ models: model.endpoint });
	const { baseUrl, tokenUrl, clientId } = provider;
	const auth = JSON.parse(String(provider.login("acme").get(AUTH_FILE))).acme;
	const place = { label: "ended", baseUrl, model: model.endpoint.model, dialect: "plain" } as const;
	await station.paddock.addLogin({ ...place, auth, terms: { provider: "acme", tokenUrl, clientId } });
	provider.revokeAll();
	const result = await station.run({ task: task(), endpoint: { type: "named", name: "cred:ended" } });
	expect(result).toMatchObject({ outcome: "failed", failure: { code: "credential_dead", retryable: false } });
	expect(JSON.stringify(result)).not.toMatch(/refresh-[0-9a-f]{32}|access-[0-9a-f]{32}/);
	const again = station.run({ task: task(), endpoint: { type: "named", name: "cred:ended" } });
	await expect(again).rejects.toMatchObject({ code: "credential_dead" });
});

test("an agent whose credential was taken away is stopped with the next heartbeat, and its rollout says why", async () => {
	await using model = await openScriptedModel([bash("sleep 3000"), say("done")], {
		apiKey: "sk-taken-away-1",
	});
	const { baseUrl, model: name } = model.endpoint;
	const { paddock } = station;
	await paddock.addApiKey({
		label: "taken",
		apiKey: "sk-taken-away-1",
		baseUrl,
		model: name,
		dialect: "vllm",
	});
	const request = { task: task(), endpoint: { type: "named", name: "cred:taken" }, maxAttempts: 1 };
	const { rollouts } = await paddock.submit(RolloutRequest.parse(request));
	const { id } = rollouts[0]!;
	for await (const event of paddock.follow(id)) {
		if (event.type === "call-end") await paddock.removeCredential("taken", { force: true });
	}
	expect(await paddock.result(id)).toMatchObject({
		outcome: "failed",
		failure: { boundary: "provider", code: "credential_lost", retryable: true },
	});
});

test("what nobody has looked at for PADDOCK_VERIFY_HOURS a worker looks at on its own: refreshed and stored, or dead", async () => {
	await using provider = await openOauthProvider();
	await using gone = await openOauthProvider();
	await using looking = await openTestPaddock({ PADDOCK_VERIFY_HOURS: "0.01" });
	const { paddock } = looking;
	for (const [label, at] of [
		["living", provider],
		["ended", gone],
	] as const) {
		const { baseUrl, tokenUrl, clientId } = at;
		const auth = JSON.parse(String(at.login("acme").get(AUTH_FILE))).acme;
		const terms = { provider: "acme", tokenUrl, clientId };
		await paddock.addLogin({ label, baseUrl, model: "model", dialect: "plain", auth, terms });
	}
	provider.revokeAccess();
	gone.revokeAll();
	const stateOf = async (label: string) => (await paddock.credential(label))?.state;
	await vi.waitFor(async () => expect(await stateOf("living")).toBe("alive"), 30_000);
	await vi.waitFor(async () => expect(await stateOf("ended")).toBe("dead"), 30_000);
	expect(await paddock.credential("living")).toMatchObject({ version: 2, holders: [] });
	expect(provider).toMatchObject({ rotations: 1, reuses: 0, overlaps: 0 });
}, 90_000);

test("a credential that is not there, or is told another address, is refused before anything is stored", async () => {
	const submit = (endpoint: object) =>
		station.paddock.submit(RolloutRequest.parse({ task: task(), endpoint: { type: "named", ...endpoint } }));
	await expect(submit({ name: "cred:nobody" })).rejects.toMatchObject({ code: "unknown_credential" });
	const elsewhere = { name: "cred:team", baseUrl: "https://thief.example/v1" };
	await expect(submit(elsewhere)).rejects.toMatchObject({ code: "endpoint_conflict" });
});
