import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import { loadConfig } from "../../src/config.ts";
import { openPaddock, type Paddock } from "../../src/paddock.ts";
import { Metrics, type Serving, serve } from "../../src/server/serve.ts";
import { tellOf } from "../fixtures/last-rollouts.ts";
import { example, policy } from "../fixtures/paddock.ts";
import { requirePart } from "../fixtures/parts.ts";

const owned = new AsyncDisposableStack();
let paddock: Paddock;
let serving: Serving;
let client: Client;

beforeAll(async () => {
	const home = await mkdtemp(join(tmpdir(), "paddock-http-"));
	owned.defer(() => rm(home, { recursive: true, force: true }));
	const metrics = new Metrics();
	const config = loadConfig({ ...process.env, PADDOCK_HOME: home, PADDOCK_CONCURRENCY: "1" }, home);
	paddock = owned.use(await openPaddock(config, { onCommit: (event) => metrics.onEvent(event) }));
	owned.use(tellOf(paddock));
	const worker = await paddock.work();
	owned.defer(() => worker.drain(0));
	serving = owned.use(await serve(paddock, { host: "127.0.0.1", port: 0, metrics }));
	client = createClient({ baseUrl: serving.url });
});
afterAll(() => owned.disposeAsync());

test("a real agent is driven over HTTP from the request to the samples", {
	timeout: 180_000,
}, async (context) => {
	const { local } = await paddock.sandboxes();
	requirePart(context, "the local sandbox", local?.ok === true, "paddock doctor says what is missing");
	const { rollouts } = await client.submit({
		task: await example("fizzbuzz"),
		endpoint: policy("oracle"),
		labels: { suite: "http" },
	});
	const id = rollouts[0]!.id;
	const events = await Array.fromAsync(client.events(id));
	expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
	expect(events[0]).toMatchObject({ type: "rollout-queued" });
	expect(events.at(-1)).toMatchObject({ type: "rollout-end", outcome: "completed", reward: 1 });

	expect(await client.finalize(id, 0)).toMatchObject({ rollout_id: id, reward: 1, error: null });
	const calls = await Array.fromAsync(client.calls(id));
	expect(calls).toHaveLength((await client.get(id)).calls);
	expect((await client.messages(id)).messages.length).toBeGreaterThan(1);
	expect(await client.diff(id)).toContain("fizzbuzz.sh");
	expect((await client.files(id)).files.map((file) => file.path)).toContain("fizzbuzz.sh");
	const samples = await Array.fromAsync(client.samples(id));
	expect(samples.length).toBeGreaterThan(0);
	for (const { ids, mask, logprobs, reward } of samples) {
		expect([mask.length, logprobs.length, reward]).toEqual([ids.length, ids.length, 1]);
	}
	expect((await client.list({ label: "suite=http", status: "done" })).items.map((row) => row.id)).toEqual([
		id,
	]);
});

test("the metrics tell what that rollout cost", async (context) => {
	const { done } = (await paddock.status()).rollouts;
	requirePart(context, "a finished rollout", done > 0, "the test before this one makes it");
	const lines = (await (await fetch(`${serving.url}/metrics`)).text()).split("\n");
	expect(lines).toContain('paddock_rollouts_ended_total{outcome="completed"} 1');
	for (const phase of ["create", "setup", "agent", "verify"])
		expect(lines).toContain(`paddock_phase_seconds_count{phase="${phase}"} 1`);
	expect(lines.find((line) => line.startsWith('paddock_tokens_total{kind="completion"}'))).not.toMatch(/ 0$/);
	expect(lines).toContain("paddock_leaked_boxes_total 0");
});

test("what cannot be is refused in one sentence before anything is stored", async () => {
	const before = await client.status();
	const task = { id: "t", instruction: "x" };
	const unknown = client.submit({ task, endpoint: policy("no-such-policy") });
	await expect(unknown).rejects.toMatchObject({ status: 400 });
	const replay = client.submit({ task, endpoint: policy("replay") });
	await expect(replay).rejects.toMatchObject({ status: 400, code: "bad_policy" });
	expect((await client.status()).rollouts).toEqual(before.rollouts);
});
