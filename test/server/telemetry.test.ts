import { expect, test } from "vitest";
import { createLog } from "../../src/log.ts";
import type { RolloutEvent } from "../../src/model/event.ts";
import { createApp } from "../../src/server/app.ts";
import { Metrics } from "../../src/server/metrics.ts";
import { openOtlp, openTelemetry } from "../../src/server/otlp.ts";
import type { Store } from "../../src/store/store.ts";
import { openCollector } from "../fixtures/collector.ts";
import { openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { clientOf, request } from "./caller.ts";

const call = {
	index: 0,
	purpose: "main" as const,
	sessionId: null,
	finishReason: "stop",
	promptTokens: 30,
	completionTokens: 12,
	complete: true,
	latencyMs: 80,
	error: null,
};

/** A rollout whose first attempt fails and whose second succeeds. */
async function play(store: Store, id: string): Promise<void> {
	await store.begin(id, "w1");
	await store.append(id, 1, [{ type: "phase-start", phase: "create" }]);
	const failure = { boundary: "sandbox" as const, code: "box_lost", message: "gone", retryable: true };
	await store.requeue(id, 1, failure);
	await store.begin(id, "w2");
	await store.append(id, 2, [
		{ type: "phase-start", phase: "agent" },
		{ type: "call-end", call },
		{ type: "call-end", call: { ...call, index: 1, error: { code: "upstream_500", message: "x" } } },
		{ type: "phase-start", phase: "verify" },
	]);
	await store.finish(id, 2, { outcome: "completed", reward: 1, failure: null, summary: null });
}

test("metrics count what happened: outcomes, phases, tokens, latencies, queue and leaks", async () => {
	const metrics = new Metrics();
	await using paddock = await openIdlePaddock({}, { onCommit: (event) => metrics.onEvent(event) });
	const app = createApp(paddock, { metrics });
	const client = clientOf(app);
	const { rollouts } = await client.submit({ ...request(), n: 3 });
	await play(paddock.store, rollouts[0]!.id);
	await client.abort(rollouts[1]!.id);
	const response = await app.request("/metrics");
	expect(response.headers.get("content-type")).toContain("version=0.0.4");
	const text = await response.text();
	for (const line of [
		'paddock_rollouts_ended_total{outcome="completed"} 1',
		'paddock_rollouts_ended_total{outcome="aborted"} 1',
		'paddock_rollouts_ended_total{outcome="failed"} 0',
		'paddock_attempts_failed_total{boundary="sandbox",code="box_lost"} 1',
		'paddock_rollouts{status="queued"} 1',
		// Played by hand: nobody took the first one from the queue.
		"paddock_queue_depth 2",
		'paddock_tokens_total{kind="prompt"} 60',
		'paddock_tokens_total{kind="completion"} 24',
		'paddock_call_errors_total{code="upstream_500"} 1',
		'paddock_call_seconds_bucket{purpose="main",le="0.1"} 2',
		'paddock_call_seconds_bucket{purpose="main",le="0.05"} 0',
		'paddock_phase_seconds_count{phase="agent"} 1',
		'paddock_phase_seconds_count{phase="verify"} 1',
		"paddock_leaked_boxes_total 0",
		'paddock_http_requests_total{method="POST",status="201"} 1',
	])
		expect(text.split("\n")).toContain(line);
	for (const line of text.trim().split("\n"))
		expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{.*\})? [\d.e+-]+)$/);
});

test("an aborted rollout is counted whoever ends it: the abort, the next attempt, or the worker that gave it back", async () => {
	const metrics = new Metrics();
	await using paddock = await openIdlePaddock({}, { onCommit: (event) => metrics.onEvent(event) });
	const { rollouts } = await clientOf(createApp(paddock)).submit({ ...request(), n: 3 });
	const [waiting, orphaned, handedBack] = rollouts.map(({ id }) => id) as [string, string, string];
	for (const id of [orphaned, handedBack]) await paddock.store.begin(id, "w1");
	for (const id of [waiting, orphaned, handedBack]) await paddock.abort({ id });
	expect(await paddock.store.begin(orphaned, "w2")).toBeNull();
	const failure = { boundary: "sandbox" as const, code: "box_lost", message: "gone", retryable: true };
	await paddock.store.requeue(handedBack, 1, failure);
	expect((await paddock.status()).rollouts.done).toBe(3);
	expect(await metrics.render(paddock)).toContain('paddock_rollouts_ended_total{outcome="aborted"} 3');
});

test("a conversation ends its span and counts its failure, and its hours are no rollout's phase", async () => {
	await using collector = await openCollector();
	const telemetry = openTelemetry({ OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/` }, createLog())!;
	const metrics = new Metrics();
	const onCommit = (event: RolloutEvent) => {
		telemetry.onEvent(event);
		metrics.onEvent(event);
	};
	await using paddock = await openIdlePaddock({}, { onCommit });
	const { id } = await clientOf(createApp(paddock)).converse({ endpoint: request().endpoint });
	await paddock.store.begin(id, "w1");
	await paddock.store.append(id, 1, [{ type: "phase-start", phase: "agent" }]);
	const failure = { boundary: "sandbox" as const, code: "box_lost", message: "gone", retryable: false };
	await paddock.store.finish(id, 1, { outcome: "failed", reward: null, failure, summary: null });
	await telemetry[Symbol.asyncDispose]();
	expect(collector.spans.map(({ name }) => name)).toContain("conversation");
	const text = await metrics.render(paddock);
	expect(text).toContain('paddock_attempts_failed_total{boundary="sandbox",code="box_lost"} 1');
	expect(text).not.toContain('paddock_phase_seconds_count{phase="agent"}');
});

test("a collector gets one trace: a span for each attempt, below it phases, below those calls", async () => {
	await using collector = await openCollector();
	const env = {
		OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
		OTEL_EXPORTER_OTLP_HEADERS: "x-team=rl%20lab,other=1",
	};
	const telemetry = openTelemetry(env, createLog())!;
	await using paddock = await openIdlePaddock({}, { onCommit: (event) => telemetry.onEvent(event) });
	const { rollouts } = await clientOf(createApp(paddock)).submit(request());
	await play(paddock.store, rollouts[0]!.id);
	await telemetry[Symbol.asyncDispose]();

	const { spans } = collector;
	expect(collector.headers[0]).toMatchObject({ url: "/v1/traces", "x-team": "rl lab", other: "1" });
	expect(new Set(spans.map((span) => span.traceId)).size).toBe(1);
	const named = (name: string) => spans.filter((span) => span.name === name);
	const [failed, succeeded] = named("rollout");
	expect(failed?.status.code).toBe(2);
	expect(succeeded?.status.code).toBeUndefined();
	expect(named("phase agent")[0]?.parentSpanId).toBe(succeeded?.spanId);
	expect(named("call main").map((span) => span.parentSpanId)).toEqual(
		Array(2).fill(named("phase agent")[0]?.spanId),
	);
	for (const span of spans)
		expect(BigInt(span.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(span.startTimeUnixNano));
});

test("a collector that is down costs a line in the log and nothing else", async () => {
	const lines: string[] = [];
	const log = createLog({ level: "warn", destination: { write: (line) => void lines.push(line) } });
	const exporter = openOtlp({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://127.0.0.1:1/v1/traces" }, log)!;
	const span = {
		traceId: "a".repeat(32),
		spanId: "b".repeat(16),
		name: "x",
		startMs: 1,
		endMs: 2,
		attributes: {},
	};
	for (let index = 0; index < 20; index++) exporter.send([span]);
	await exporter[Symbol.asyncDispose]();
	expect(lines).toHaveLength(20);
	expect(openOtlp({}, log)).toBeNull();
});
