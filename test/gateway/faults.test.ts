import { expect, test } from "vitest";
import { HEALTHY_TEXT } from "../fakes/faults.ts";
import { faults } from "../fakes/upstream.ts";
import { type Answer, CHAT, openStation, type Station } from "./station.ts";

const AGENT_TRIES = 6;

/** An agent that tries again like OpenCode: after a broken stream and 5xx/429, never after another 4xx. */
async function insist(station: Station, key: string): Promise<Answer[]> {
	const answers: Answer[] = [];
	for (let i = 0; i < AGENT_TRIES; i += 1) {
		const answer = await station.ask(key, CHAT, { headers: { "x-session-id": "ses_1" } });
		answers.push(answer);
		const isRetryable = answer.isBroken || answer.status === 429 || answer.status >= 500;
		const isOverflow = answer.text.includes("context_length_exceeded");
		if (!isRetryable && !isOverflow) break;
	}
	return answers;
}

test.each(faults)("$name ends as $failure within $maxUpstreamRequests requests", async (fault) => {
	await using station = await openStation(fault.script());
	await using tap = station.open();
	const answers = await insist(station, tap.key);
	const last = answers.at(-1)!;
	expect(station.upstream.received.length).toBeLessThanOrEqual(fault.maxUpstreamRequests);
	expect(station.calls.map((call) => call.index)).toEqual([...station.calls.keys()]);
	expect(station.calls.map((call) => call.retryOf)).toEqual([null, ...station.calls.slice(1).keys()]);
	if (fault.failure === null) {
		expect(last).toMatchObject({ status: 200, isBroken: false });
		expect(last.events.at(-1)).toBe("data: [DONE]");
		expect(last.text).toMatch(/"finish_reason":"stop"/);
		expect(station.calls.at(-1)).toMatchObject({ complete: true, error: null });
		expect(station.calls.at(-1)!.response.message!.content).toBe(HEALTHY_TEXT);
		expect(tap.stop).toBeNull();
		expect(tap.lastUpstreamError).toBeNull();
		return;
	}
	expect(tap.stop).toMatchObject({ type: "failure", failure: { boundary: "provider", code: fault.failure } });
	expect(tap.lastUpstreamError?.code).toBe(fault.failure);
	expect(station.stops).toHaveLength(1);
	expect(station.calls.every((call) => !call.complete && call.error?.code === fault.failure)).toBe(true);
	// Either the stream was broken off, or a 400 that no agent takes for something to retry or to shorten.
	if (!last.isBroken) {
		expect(last.status).toBe(400);
		expect(last.text).not.toMatch(/context_length|invalid_request_error|maximum context/);
	}
	const after = await station.ask(tap.key);
	expect(after.status).toBe(400);
	expect(station.upstream.received.length).toBeLessThanOrEqual(fault.maxUpstreamRequests);
});

test("a failing title call does not end the rollout", async () => {
	await using station = await openStation(({ response }) => void response.writeHead(500).end("boom"));
	await using tap = station.open();
	const answer = await station.ask(tap.key, CHAT, { headers: { "x-paddock-agent": "title" } });
	expect(answer.status).toBe(400);
	expect(tap.stop).toBeNull();
	expect(tap.lastUpstreamError?.code).toBe("provider_error");
});
