import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { faults, openUpstream } from "../fakes/upstream.ts";
import { openTestPaddock, type TestPaddock } from "../fixtures/paddock.ts";
import { task } from "../fixtures/script.ts";

/** Short enough for a test; the order of the clocks is the same as in earnest. */
const limits = {
	upstreamHeadersMs: 2_000,
	upstreamChunkMs: 2_000,
	retryDelayMs: 50,
	rateLimitDelayMs: 200,
	rateLimitTotalMs: 600,
};

let station: TestPaddock;
beforeAll(async () => {
	station = await openTestPaddock({}, { gatewayLimits: limits });
});
afterAll(async () => await station?.[Symbol.asyncDispose]());

describe("the real agent with an engine that fails", () => {
	test.each(faults)("$name: $failure", async (fault) => {
		await using upstream = await openUpstream(fault.script());
		const { baseUrl } = upstream;
		const result = await station.run({
			task: task({ clocks: { agentS: 100 } }),
			endpoint: { type: "url", baseUrl, model: "engine-model", dialect: "vllm" },
			maxAttempts: 1,
		});
		const outcome = fault.failure === null ? "completed" : "failed";
		expect({ outcome: result.outcome, code: result.failure?.code ?? null }).toEqual({
			outcome,
			code: fault.failure,
		});
		expect(upstream.received.length).toBeLessThanOrEqual(fault.maxUpstreamRequests);
	});
});
