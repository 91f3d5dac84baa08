import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import { createApp } from "../../src/server/app.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { clientOf, postJson } from "./caller.ts";

const CANARY = "sk-canary-81d2c6b0aa";
const HELPER = {
	name: "helper",
	endpoint: { type: "url", baseUrl: "https://models.example", model: "small", apiKey: CANARY } as const,
	models: ["small"],
	budget: { maxTotalTokens: 1000 },
};

let paddock: IdlePaddock;
let app: ReturnType<typeof createApp>;
let client: Client;
beforeAll(async () => {
	paddock = await openIdlePaddock({ hostAgents: true });
	app = createApp(paddock);
	client = clientOf(app);
});
afterAll(() => paddock[Symbol.asyncDispose]());

test("an agent can be added, seen, changed, revoked and removed, and no answer holds a secret", async () => {
	const added = await client.addAgent(HELPER);
	expect(added).toMatchObject({ name: "helper", via: "gateway", keptBy: null, revokedAt: null });
	expect((await client.agents()).items).toEqual([added]);
	expect(await client.agent("helper")).toEqual(added);
	await expect(client.addAgent(HELPER)).rejects.toMatchObject({ status: 409, code: "agent_exists" });
	const changed = await client.changeAgent("helper", { models: ["a", "b"], budget: { maxCalls: 5 } });
	expect(changed).toMatchObject({ models: ["a", "b"], budget: { maxCalls: 5 }, needsRestart: false });
	expect((await client.changeAgent("helper", { key: "revoked" })).revokedAt).toBeGreaterThan(0);
	await expect(client.startAgent("helper")).rejects.toMatchObject({ status: 409, code: "agent_revoked" });
	const renewed = await client.changeAgent("helper", { key: "renewed" });
	expect(renewed.keyFingerprint).not.toBe(added.keyFingerprint);
	expect(await client.agentLog("helper")).toEqual({ text: "" });
	expect(await client.stopAgent("helper")).toMatchObject({ keptBy: null });
	const { password, key } = await paddock.store.agents.secrets("helper");
	for (const secret of [CANARY, password, key])
		expect(JSON.stringify([added, changed, renewed])).not.toContain(secret);
	expect(await client.removeAgent("helper")).toEqual({ removed: true });
	for (const gone of [client.agent("helper"), client.startAgent("helper"), client.stopAgent("helper")])
		await expect(gone).rejects.toMatchObject({ status: 404, code: "unknown_agent" });
});

test("an agent that is started over HTTP runs behind its password until it is stopped over HTTP", async () => {
	await client.addAgent(HELPER);
	const started = await client.startAgent("helper");
	expect(started).toMatchObject({ wanted: "running", starts: 1, keptBy: { pid: process.pid } });
	expect(await client.startAgent("helper")).toMatchObject({ baseUrl: started.baseUrl, starts: 1 });
	const { password } = await paddock.store.agents.secrets("helper");
	const health = async (by: string) => {
		const authorization = `Basic ${Buffer.from(`opencode:${by}`).toString("base64")}`;
		return await fetch(`${started.baseUrl}/global/health`, { headers: { authorization } });
	};
	expect((await health("wrong")).status).toBe(401);
	expect(await (await health(password)).json()).toMatchObject({ healthy: true });
	expect((await client.agentLog("helper")).text).toContain("listening");
	expect(await client.stopAgent("helper")).toMatchObject({ wanted: "stopped", keptBy: null, baseUrl: null });
	await expect(health(password)).rejects.toThrow();
	await client.removeAgent("helper");
}, 120_000);

test("a token for rollouts is no shell on this machine: without the operator's word none is added", async () => {
	await using careful = await openIdlePaddock();
	const refused = clientOf(createApp(careful)).addAgent(HELPER);
	await expect(refused).rejects.toMatchObject({ status: 403, code: "host_agents_refused" });
	expect(await careful.agents()).toEqual([]);
});

test("whoever asks over HTTP chooses neither the program nor its place", async () => {
	for (const more of [{ binary: "/bin/sh" }, { home: "/etc" }])
		expect((await postJson(app, "/api/v1/agents", { ...HELPER, ...more })).status).toBe(422);
	expect((await client.agents()).items).toEqual([]);
});

test("a conversation with a kept agent is refused what only a box, or another model, could give", async () => {
	await client.addAgent(HELPER);
	const boxed = {
		...{ files: [{ path: "a", content: "b" }], before: ["true"], after: ["true"], deliverables: ["*.md"] },
		...{ sandbox: "docker" as const, box: { network: "internet" as const }, budget: { maxCalls: 1 } },
		...{ mode: "black_box" as const, sampling: { temperature: 1 }, clocks: { setupS: 1 } },
	};
	for (const [name, value] of Object.entries(boxed)) {
		const refused = client.converse({ keptAgent: "helper", [name]: value });
		await expect(refused).rejects.toMatchObject({ status: 422, code: "box_needed" });
		await expect(refused).rejects.toThrow(name);
	}
	const agent = { compaction: true };
	await expect(client.converse({ keptAgent: "helper", agent })).rejects.toThrow("compaction");
	const two = { keptAgent: "helper", endpoint: { type: "policy", policy: "noop" } } as const;
	for (const body of [two, {}])
		await expect(client.converse(body)).rejects.toMatchObject({ status: 422, code: "invalid_request" });
	await expect(client.converse({ keptAgent: "nobody" })).rejects.toMatchObject({ code: "unknown_agent" });
	expect((await client.conversations()).items).toEqual([]);
	await client.removeAgent("helper");
});

test("without the operator's word nobody talks to one over HTTP, not even where its owner does", async () => {
	await client.addAgent(HELPER);
	const { id } = await client.converse({ keptAgent: "helper", agent: { permission: "ask" } });
	await using careful = await openIdlePaddock({ home: paddock.config.home });
	const stranger = clientOf(createApp(careful));
	for (const refused of [
		stranger.converse({ keptAgent: "helper" }),
		stranger.say(id, "Hello."),
		stranger.interruptConversation(id, { text: "Hello." }),
		stranger.permit(id, "per_1", { reply: "once" }),
	])
		await expect(refused).rejects.toMatchObject({ status: 403, code: "host_agents_refused" });
	expect(await stranger.closeConversation(id)).toMatchObject({ keptAgent: "helper", sandbox: null });
	const reopened = stranger.reopenConversation(id, {});
	await expect(reopened).rejects.toMatchObject({ status: 403, code: "host_agents_refused" });
	await client.removeAgent("helper");
});
