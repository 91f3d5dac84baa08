import { existsSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { driveTurn, type TurnReply } from "../../src/conversation/drive-turn.ts";
import { AgentHost } from "../../src/kept/host.ts";
import { openPolicyServer } from "../../src/policy/server.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { readCalls } from "../../src/store/trace/trace-log.ts";
import { filesHolding } from "../fixtures/evidence.ts";
import { say, task } from "../fixtures/script.ts";

const API_KEY = "sk-canary-of-the-endpoint-4471";
const stack = new AsyncDisposableStack();
let home = "";
let work = "";
let store: Store;
let host: AgentHost;
let baseUrl = "";

beforeAll(async () => {
	home = await realpath(await mkdtemp(join(tmpdir(), "paddock-kept-")));
	stack.defer(() => rm(home, { recursive: true, force: true }));
	work = join(home, "work");
	await mkdir(work);
	const policies = stack.use(await openPolicyServer());
	const role = { policy: "oracle", task: task(), steps: [say("It is a folder."), say("It still is.")] };
	const cast = await policies.cast(role, { model: "small", apiKey: API_KEY });
	baseUrl = cast.endpoint.baseUrl;
	store = stack.use(await openSqliteStore({ home }));
	host = stack.use(openHost(store));
});
afterAll(() => stack.disposeAsync());

function openHost(on: Store): AgentHost {
	return new AgentHost({ store: on, home, env: { PATH: process.env.PATH }, warn: () => {} });
}

function endpoint() {
	return { type: "url", baseUrl, model: "small", dialect: "vllm", apiKey: API_KEY } as const;
}

async function ask(name: string, text: string): Promise<TurnReply> {
	using reached = await host.reach(name);
	await using talk = await reached.open({ directory: work, title: "test" });
	let last: TurnReply | null = null;
	for await (const reply of driveTurn(talk, text)) last = reply;
	return last!;
}

test("an agent behind the gateway answers, is captured and counted, and never has the endpoint's key", async () => {
	const added = await host.add({ name: "helper", endpoint: endpoint(), models: ["small", "large"] });
	expect(added).toMatchObject({ via: "gateway", keptBy: null, home: join(home, "agents", "helper") });
	expect(await ask("helper", "What is here?")).toMatchObject({ kind: "final", content: "It is a folder." });
	await expect.poll(async () => (await host.find("helper"))!.spent.calls).toBe(1);
	const agent = (await host.find("helper"))!;
	expect(agent).toMatchObject({ keptBy: { pid: process.pid }, wanted: "running" });
	expect(agent.spent.completionTokens).toBeGreaterThan(0);
	const calls = await Array.fromAsync(readCalls(() => store.readTrace(agent.id, agent.starts)));
	expect(calls).toHaveLength(1);
	expect(calls[0]!.completionIds.length).toBe(agent.spent.completionTokens);
	// Its own key is in its own configuration; the endpoint's is nowhere.
	expect(await filesHolding(home, API_KEY)).toEqual([]);
	expect(await host.log("helper")).toContain("listening on");
	expect(await host.access("helper")).toMatchObject({ baseUrl: agent.baseUrl });
}, 120_000);

test("what it may spend counts at once, also when another process says so", async () => {
	await using elsewhere = await openSqliteStore({ home });
	await using other = openHost(elsewhere);
	await expect(other.start("helper")).rejects.toMatchObject({ code: "agent_kept" });
	const { spent } = (await host.find("helper"))!;
	await other.change("helper", { budget: { maxCalls: spent.calls } });
	await expect.poll(async () => (await ask("helper", "And now?")).kind, { timeout: 60_000 }).toBe("error");
	await other.change("helper", { budget: { maxCalls: spent.calls + 100 } });
	await expect.poll(async () => (await ask("helper", "And now?")).kind, { timeout: 60_000 }).toBe("final");
}, 120_000);

test("a revoked key opens nothing: the server ends with all of it, and starts only with another", async () => {
	const { key } = await store.agents.secrets("helper");
	const kept = await host.start("helper");
	const gatewayUrl = JSON.parse(
		readFileSync(join(home, "agents/helper/.config/opencode/opencode.json"), "utf8"),
	).provider.paddock.options.baseURL;
	const { pid } = JSON.parse(readFileSync(join(home, "agents/helper/server.json"), "utf8"));
	const models = () =>
		fetch(`${gatewayUrl}/models`, { headers: { authorization: `Bearer ${key}` } }).then(
			({ status }) => status,
			() => "closed",
		);
	expect(await models()).toBe(200);
	await using elsewhere = await openSqliteStore({ home });
	await elsewhere.agents.change("helper", { revokedAt: Date.now() }, { needsRestart: false });
	expect(await kept.ended).toBe("its key was revoked");
	expect(existsSync(`/proc/${pid}`)).toBe(false);
	expect(await models()).toBe("closed");
	await expect(host.start("helper")).rejects.toMatchObject({ code: "agent_revoked" });
	await host.change("helper", { key: "renewed" });
	expect((await store.agents.secrets("helper")).key).not.toBe(key);
	expect(await ask("helper", "Again?")).toMatchObject({ kind: "final" });
	expect(await host.remove("helper")).toBe(true);
	expect(existsSync(join(home, "agents", "helper"))).toBe(false);
	expect(await host.find("helper")).toBeNull();
}, 120_000);

test("an agent can also go straight to any base URL; then nothing is counted", async () => {
	const elsewhere = join(home, "chosen");
	await host.add({
		...{ name: "plain", endpoint: endpoint(), models: ["small"], via: "direct", home: elsewhere },
	});
	await expect(
		host.add({ name: "twin", endpoint: endpoint(), models: ["small"], home: elsewhere }),
	).rejects.toMatchObject({ code: "bad_agent" });
	expect(await ask("plain", "What is here?")).toMatchObject({ kind: "final" });
	expect((await host.find("plain"))!.spent.calls).toBe(0);
	expect(await host.remove("plain")).toBe(true);
	expect(existsSync(elsewhere)).toBe(true);
}, 120_000);
