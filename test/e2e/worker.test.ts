import { mkdtemp, rm } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { openCollector } from "../fixtures/collector.ts";
import { freePort, startDaemon } from "../fixtures/daemon.ts";
import { example } from "../fixtures/paddock.ts";

let home: string;
beforeEach(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-worker-"));
});
afterEach(async () => await rm(home, { recursive: true, force: true }));

test("a worker shows its share of the work: metrics, spans, and nothing else of the server's", async () => {
	await using collector = await openCollector();
	const [port, workerPort] = [await freePort(), await freePort()];
	const env = { PADDOCK_HOME: home, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
	await using _server = await startDaemon(["serve", "--port", `${port}`, "--no-worker"], env);
	const worker = await startDaemon(["worker", "--concurrency", "1", "--port", `${workerPort}`], env);
	const base = `http://127.0.0.1:${workerPort}`;
	try {
		const client = createClient({ baseUrl: `http://127.0.0.1:${port}` });
		const { rollouts } = await client.submit({
			task: await example("fizzbuzz"),
			endpoint: { type: "policy", policy: "oracle" },
		});
		expect(await client.wait(rollouts[0]!.id)).toMatchObject({ outcome: "completed", reward: 1 });

		const text = await (await fetch(`${base}/metrics`)).text();
		for (const line of [
			'paddock_rollouts_ended_total{outcome="completed"} 1',
			'paddock_phase_seconds_count{phase="agent"} 1',
			'paddock_call_seconds_count{purpose="main"} 3',
			"paddock_leaked_boxes_total 0",
		])
			expect(text.split("\n")).toContain(line);
		expect(await (await fetch(`${base}/api/v1/health`)).json()).toMatchObject({ status: "ok" });
		expect((await fetch(`${base}/api/v1/rollouts`)).status).toBe(404);
		expect(await statusFor("evil.example", workerPort)).toBe(403);
	} finally {
		await worker[Symbol.asyncDispose]();
	}
	const names = collector.spans.map((span) => span.name);
	expect(names.filter((name) => name === "rollout")).toHaveLength(1);
	expect(names.filter((name) => name === "call main")).toHaveLength(3);
});

/** As a page that made its own name point here would ask. */
async function statusFor(host: string, port: number): Promise<number | undefined> {
	const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
	request({ host: "127.0.0.1", port, path: "/metrics", headers: { host } }, (response) => {
		response.resume();
		resolve(response.statusCode);
	})
		.on("error", reject)
		.end();
	return await promise;
}
