import { expect, test, vi } from "vitest";
import { sse, stream, streams } from "../fakes/replies.ts";
import type { Exchange } from "../fakes/upstream.ts";
import { CHAT, connect, openStation, type Station } from "./station.ts";

const saying = (content: string) => ({ ...CHAT, messages: [{ role: "user", content }] });
const turn = (n: number) => saying(`turn ${n}`);

async function takeTurns(station: Station, key: string, count: number): Promise<number[]> {
	const statuses: number[] = [];
	for (let n = 0; n < count; n += 1) statuses.push((await station.ask(key, turn(n))).status);
	return statuses;
}

test.each([
	["calls", { maxCalls: 2 }],
	["input tokens", { maxCalls: 500, maxInputTokens: 8 }],
	["output tokens", { maxCalls: 500, maxOutputTokens: 6 }],
	["total tokens", { maxCalls: 500, maxTotalTokens: 14 }],
])(
	"when the %s are used up the agent is told to end, once, and nothing more goes upstream",
	async (what, budget) => {
		await using station = await openStation(stream(streams.vllm()));
		await using tap = station.open({ budget });
		expect(await takeTurns(station, tap.key, 4)).toEqual([200, 200, 400, 400]);
		expect(station.stops).toEqual([{ type: "budget", what }]);
		expect(tap.stop).toEqual({ type: "budget", what });
		expect(station.upstream.received).toHaveLength(2);
		expect(station.calls).toHaveLength(2);
		const refused = await station.ask(tap.key);
		expect(refused.text).not.toMatch(/context|invalid_request_error/);
	},
);

test("an answer that the budget cut short ends the rollout as budget, not as a short answer", async () => {
	const cutShort = streams.vllm().replace('"finish_reason":"stop"', '"finish_reason":"length"');
	await using station = await openStation(stream(cutShort));
	await using tap = station.open({ budget: { maxCalls: 500, maxOutputTokens: 3 } });
	await station.ask(tap.key);
	expect(station.upstream.received[0]!.body.max_tokens).toBe(3);
	expect(station.stops).toEqual([{ type: "budget", what: "output tokens" }]);
});

test("the same request answered again and again is a loop, and is ended", async () => {
	await using station = await openStation(stream(streams.vllm()), { limits: { maxRepeats: 3 } });
	await using tap = station.open();
	const statuses: number[] = [];
	for (let n = 0; n < 5; n += 1) statuses.push((await station.ask(tap.key)).status);
	expect(statuses).toEqual([200, 200, 200, 400, 400]);
	expect(station.stops).toMatchObject([
		{ type: "failure", failure: { boundary: "agent", code: "request_loop" } },
	]);
	expect(station.calls.map((call) => call.retryOf)).toEqual([null, null, null]);
});

test("the same request is no loop when others of its session come in between", async () => {
	await using station = await openStation(stream(streams.vllm()), { limits: { maxRepeats: 2 } });
	await using tap = station.open();
	for (let n = 0; n < 4; n += 1) {
		expect((await station.ask(tap.key)).status).toBe(200);
		expect((await station.ask(tap.key, turn(n))).status).toBe(200);
	}
	expect(tap.stop).toBeNull();
});

test("a retry names the undelivered call it repeats", async () => {
	let isFirst = true;
	await using station = await openStation((exchange) => {
		if (!isFirst) return stream(streams.vllm())(exchange);
		isFirst = false;
		exchange.response.writeHead(200, { "content-type": "text/event-stream" });
		exchange.response.write(sse({ model: "m", choices: [{ index: 0, delta: { content: "x" } }] }), () =>
			exchange.response.destroy(),
		);
	});
	await using tap = station.open();
	expect((await station.ask(tap.key)).isBroken).toBe(true);
	expect((await station.ask(tap.key)).isBroken).toBe(false);
	expect(station.calls).toMatchObject([
		{ index: 0, complete: false, retryOf: null },
		{ index: 1, complete: true, retryOf: 0 },
	]);
});

test("an engine that is asked for usage and forgets it is counted by the tokens it sent", async () => {
	const withoutUsage = streams.vllm().replace(/data: \{[^\n]*"usage"[^\n]*\n\n/, "");
	await using station = await openStation(stream(withoutUsage));
	await using tap = station.open();
	const answer = await station.ask(tap.key);
	expect(tap.counts).toEqual({ calls: 1, promptTokens: 4, completionTokens: 3 });
	expect(answer.text).toContain('"completion_tokens":3');
	expect(station.calls[0]!.losses).toContain("usage missing");
});

test("a context overflow is let through once; a prompt that fits again makes the next one a first", async () => {
	const overflow = JSON.stringify({
		error: { message: "maximum context length is 10", code: "context_length_exceeded" },
	});
	await using station = await openStation((exchange) =>
		JSON.stringify(exchange.body.messages).includes("long")
			? void exchange.response.writeHead(400).end(overflow)
			: stream(streams.vllm())(exchange),
	);
	await using tap = station.open();
	const long = saying("long");
	const first = await station.ask(tap.key, long);
	expect(first).toMatchObject({ status: 400 });
	expect(first.text).toContain("context_length_exceeded");
	expect((await station.ask(tap.key, CHAT, { headers: { "x-paddock-agent": "compaction" } })).status).toBe(
		200,
	);
	expect(tap.stop).toBeNull();
	expect((await station.ask(tap.key)).status).toBe(200);
	expect((await station.ask(tap.key, saying("long 1"))).text).toContain("context_length_exceeded");
	expect(tap.stop).toBeNull();
	expect((await station.ask(tap.key, saying("long 2"))).text).not.toContain("context");
	expect(tap.stop).toMatchObject({ type: "failure", failure: { code: "context_overflow" } });
});

test("more calls at once than a rollout may have are put off, not served", async () => {
	await using station = await openStation(() => {}, {
		limits: { maxCallsInFlight: 1, upstreamHeadersMs: 30_000 },
	});
	const tap = station.open();
	const first = station.ask(tap.key).catch(() => "cut");
	await station.upstream.until(() => station.upstream.received.length === 1);
	const second = await station.ask(tap.key, turn(2));
	expect(second.status).toBe(429);
	expect(second.headers["retry-after"]).toBe("1");
	await tap.revoke();
	expect(await first).toBe("cut");
});

test("calls side by side never get more tokens together than are left", async () => {
	const waiting: Exchange[] = [];
	await using station = await openStation((exchange) => void waiting.push(exchange), {
		limits: { upstreamHeadersMs: 60_000, upstreamWholeMs: 60_000 },
	});
	await using tap = station.open({ budget: { maxCalls: 500, maxOutputTokens: 10_000 } });
	const asking = Array.from({ length: 32 }, (_, n) => station.ask(tap.key, turn(n)));
	let [answered, sampled] = [0, 0];
	while (sampled < 10_000) {
		await station.upstream.until(() => station.upstream.received.length > answered);
		const underWay = station.upstream.received.slice(answered);
		const promised = underWay.reduce((sum, { body }) => sum + Number(body.max_tokens), 0);
		expect(sampled + promised).toBeLessThanOrEqual(10_000);
		// Each uses up all it may.
		const next = waiting.shift()!;
		answered += 1;
		sampled += Number(next.body.max_tokens);
		const usage = `"completion_tokens":${next.body.max_tokens}`;
		stream(streams.vllm().replace('"completion_tokens":3', usage))(next);
	}
	const statuses = (await Promise.all(asking)).map(({ status }) => status);
	expect(statuses.filter((status) => status === 200)).toHaveLength(answered);
	expect(statuses.filter((status) => status === 400)).toHaveLength(32 - answered);
	expect(tap.counts.completionTokens).toBe(10_000);
	expect(station.stops).toEqual([{ type: "budget", what: "output tokens" }]);
});

test("a call that waits for others goes on with what they left", async () => {
	const waiting: Exchange[] = [];
	await using station = await openStation((exchange) => void waiting.push(exchange), {
		limits: { upstreamHeadersMs: 60_000 },
	});
	await using tap = station.open({ budget: { maxCalls: 500, maxTotalTokens: 5000 } });
	const first = station.ask(tap.key, turn(1));
	await station.upstream.until(() => station.upstream.received.length === 1);
	const second = station.ask(tap.key, turn(2));
	stream(streams.vllm())(waiting[0]!);
	expect((await first).status).toBe(200);
	await station.upstream.until(() => station.upstream.received.length === 2);
	expect(waiting[1]!.body.max_tokens).toBe(4096);
	stream(streams.vllm())(waiting[1]!);
	expect((await second).status).toBe(200);
});

test.each([
	["with ids", "vllm", ""],
	["without ids or logprobs", "plain", '"token_ids"'],
] as const)(
	"an answer that the agent cut off counts as far as it had come, %s",
	async (_how, dialect, hide) => {
		await using station = await openStation(({ response }) => {
			response.writeHead(200, { "content-type": "text/event-stream" });
			for (let n = 0; n < 5; n += 1)
				response.write(
					sse({
						model: "m",
						choices: [{ index: 0, delta: { content: `${n} ` }, ...(hide ? {} : { token_ids: [n] }) }],
					}),
				);
		});
		const endpoint = {
			name: "e",
			baseUrl: station.upstream.baseUrl,
			model: "m",
			dialect,
			disableThinking: false,
		};
		await using tap = station.open({ endpoint, budget: { maxCalls: 500, maxOutputTokens: 5 } });
		const socket = connect(station.url);
		const body = JSON.stringify(CHAT);
		socket.write(
			`POST /v1/chat/completions HTTP/1.1\r\nhost: gw\r\nauthorization: Bearer ${tap.key}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
		);
		let heard = "";
		for await (const chunk of socket) {
			heard += chunk;
			if (heard.includes("4 ")) break;
		}
		await vi.waitFor(() => expect(station.calls).toHaveLength(1));
		expect(tap.counts.completionTokens).toBe(5);
		expect(tap.counts.promptTokens).toBeGreaterThan(0);
		expect((await station.ask(tap.key, turn(1))).status).toBe(400);
	},
);
