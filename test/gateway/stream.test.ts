import { once } from "node:events";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Agent, request } from "undici";
import { expect, test, vi } from "vitest";
import type { ModelCall } from "../../src/model/call.ts";
import { HELLO, json, sglangBody, sse, startStream, stream, streams, type Token } from "../fakes/replies.ts";
import type { Exchange } from "../fakes/upstream.ts";
import { CHAT, connect, openStation, type Station } from "./station.ts";

test("each event reaches the agent when the engine sends it, not when the answer is complete", async () => {
	const engine = Promise.withResolvers<Exchange>();
	await using station = await openStation((exchange) => engine.resolve(exchange));
	await using tap = station.open();
	await using agent = await listen(station, tap.key);
	const { response } = await engine.promise;
	startStream({ response });
	const events = streams.vllm().split(/(?<=\n\n)/);
	for (const event of events.slice(0, 3)) {
		response.write(event);
		const seen = await agent.next();
		expect(JSON.parse(seen.slice(6)).choices[0].delta).toEqual(JSON.parse(event.slice(6)).choices[0].delta);
	}
	response.end(events.slice(3).join(""));
});

test("a call is recorded before the agent sees its last event", async () => {
	const written = Promise.withResolvers<ModelCall>();
	const gate = Promise.withResolvers<void>();
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open({
		sink: {
			async write(call) {
				written.resolve(call);
				await gate.promise;
			},
		},
	});
	await using agent = await listen(station, tap.key);
	const call = await written.promise;
	expect(call).toMatchObject({ complete: true, response: { finishReason: "stop" } });
	expect(await agent.next()).toContain('"role":"assistant"');
	expect(agent.seen).not.toMatch(/"finish_reason":"stop"|\[DONE\]/);
	gate.resolve();
	await agent.end();
	expect(agent.seen).toMatch(/"finish_reason":"stop".*\[DONE\]/s);
});

test("a call that cannot be recorded is not delivered, and ends the rollout", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open({
		sink: {
			async write() {
				throw new Error("disk full");
			},
		},
	});
	const answer = await station.ask(tap.key);
	expect(answer).toMatchObject({ isBroken: true });
	expect(answer.text).not.toContain("[DONE]");
	expect(tap.stop).toMatchObject({
		type: "failure",
		failure: { boundary: "gateway", code: "capture_failed" },
	});
});

test("an agent that hangs up stops the engine; what was sampled is kept as incomplete", async () => {
	await using station = await openStation(({ response }) => {
		startStream({ response });
		response.write(
			streams
				.vllm()
				.split(/(?<=\n\n)/)
				.slice(0, 3)
				.join(""),
		);
	});
	await using tap = station.open();
	const agent = await listen(station, tap.key);
	await agent.next();
	await agent[Symbol.asyncDispose]();
	await station.upstream.until(() => station.upstream.received[0]!.isAborted);
	await tap.revoke();
	expect(station.calls).toHaveLength(1);
	expect(station.calls[0]).toMatchObject({
		complete: false,
		error: { code: "agent_disconnected" },
		completionIds: [11, 12],
		logprobs: [-0.25, -0.5],
		response: { message: { content: "Hello ✓" }, finishReason: null },
	});
});

test("revoking a tap cuts its calls on both sides and waits for their records", async () => {
	await using station = await openStation(({ response }) => {
		startStream({ response });
		response.write(streams.vllm().split(/(?<=\n\n)/)[0]);
	});
	const tap = station.open();
	const other = station.open({ boxId: "box_2" });
	await using agent = await listen(station, tap.key);
	await using bystander = await listen(station, other.key);
	await Promise.all([agent.next(), bystander.next()]);
	await tap.revoke();
	expect(station.calls).toMatchObject([{ complete: false, error: { code: "revoked" } }]);
	await agent.end();
	expect(agent.isBroken).toBe(true);
	expect(station.upstream.received.map((entry) => entry.isAborted)).toEqual([true, false]);
	expect(bystander.isBroken).toBe(false);
});

test("an agent that does not read slows the engine down instead of filling memory", async () => {
	const piece = sse({ choices: [{ index: 0, delta: { content: "x".repeat(60_000) }, finish_reason: null }] });
	const total = 2000;
	let sent = 0;
	await using station = await openStation(async ({ response }) => {
		startStream({ response });
		const closed = once(response, "close");
		for (; sent < total && !response.destroyed; sent += 1)
			if (!response.write(piece))
				await Promise.race([new Promise((resolve) => response.once("drain", resolve)), closed]);
	});
	await using tap = station.open();
	const socket = connect(station.url);
	const body = JSON.stringify(CHAT);
	socket.write(
		`POST /v1/chat/completions HTTP/1.1\r\nhost: gw\r\nauthorization: Bearer ${tap.key}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
	);
	socket.once("data", () => socket.pause());
	await station.upstream.until(() => station.upstream.received.length === 1);
	const stalled = await settles(() => sent);
	expect(stalled).toBeGreaterThan(0);
	expect(stalled).toBeLessThan(total / 2);
	socket.destroy();
});

test("nothing of a finished call stays in the gateway, however many there were", async () => {
	const calls: WeakRef<ModelCall>[] = [];
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open({
		sink: {
			async write(call) {
				calls.push(new WeakRef(call));
			},
		},
	});
	for (let turn = 0; turn < 20; turn += 1) await station.ask(tap.key, { ...CHAT, user: String(turn) });
	expect(calls).toHaveLength(20);
	setFlagsFromString("--expose-gc");
	const collect = runInNewContext("gc") as () => void;
	await vi.waitFor(() => {
		collect();
		expect(calls.filter((call) => call.deref() !== undefined)).toHaveLength(0);
	});
});

/** The value once it has stopped changing. */
async function settles(read: () => number): Promise<number> {
	for (let last = -1, same = 0; ; ) {
		await new Promise((resolve) => setTimeout(resolve, 20));
		same = read() === last && last > 0 ? same + 1 : 0;
		last = read();
		if (same >= 10) return last;
	}
}

const CASES = [
	["vllm", streams.vllm()],
	["openai", streams.openai()],
	["plain", streams.plain()],
	["hf_router", streams.openai().replaceAll("\n", "\r\n")],
] as const;

test.each(CASES)("a %s stream split at every byte captures like the unsplit one", async (dialect, text) => {
	const bytes = Buffer.from(text);
	await using station = await openStation(async ({ response, body }) => {
		startStream({ response });
		const at = Number(body.user);
		await new Promise<void>((resolve) => response.write(bytes.subarray(0, at), () => setImmediate(resolve)));
		response.end(bytes.subarray(at));
	});
	await using tap = station.open({ endpoint: endpointOf(station, dialect), budget: { maxCalls: 100_000 } });
	const first = await station.ask(tap.key, { ...CHAT, user: "0" });
	const parts = await Promise.all(
		Array.from({ length: 8 }, async (_, lane) => {
			const answers: string[] = [];
			for (let cut = 1 + lane; cut < bytes.length; cut += 8) {
				answers.push((await station.ask(tap.key, { ...CHAT, user: String(cut) })).text);
			}
			return answers;
		}),
	);
	const [whole, ...split] = station.calls.map(comparable);
	expect(whole).toMatchObject({ complete: true, finishReason: "stop" });
	expect(split).toHaveLength(bytes.length - 1);
	for (const call of split) expect(call).toEqual(whole);
	for (const answer of parts.flat()) expect(answer).toBe(first.text);
});

test("an sglang answer split at every byte captures like the unsplit one", async () => {
	const bytes = Buffer.from(JSON.stringify(sglangBody()));
	await using station = await openStation(async ({ response, body }) => {
		const at = Number(body.user);
		await new Promise<void>((resolve) => response.write(bytes.subarray(0, at), () => setImmediate(resolve)));
		response.end(bytes.subarray(at));
	});
	await using tap = station.open({ endpoint: endpointOf(station, "sglang"), budget: { maxCalls: 100_000 } });
	for (let at = 0; at < bytes.length; at += 1) await station.ask(tap.key, { ...CHAT, user: String(at) });
	const [whole, ...split] = station.calls.map(comparable);
	expect(whole).toMatchObject({ complete: true, completionIds: [11, 12, 13] });
	expect(split).toHaveLength(bytes.length - 1);
	for (const call of split) expect(call).toEqual(whole);
});

test("an sglang engine is asked unstreamed, and the agent still gets a stream with everything in it", async () => {
	await using station = await openStation(({ response }) => void response.end(JSON.stringify(sglangBody())));
	await using tap = station.open({ endpoint: endpointOf(station, "sglang") });
	const answer = await station.ask(tap.key);
	expect(station.upstream.received[0]!.body).toMatchObject({
		stream: false,
		return_token_ids: true,
		logprobs: true,
	});
	expect(station.upstream.received[0]!.body.stream_options).toBeUndefined();
	const chunks = answer.events.slice(0, -1).map((event) => JSON.parse(event.slice(6)));
	expect(chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? "").join("")).toBe("Hello ✓ wörld");
	expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: 4, completion_tokens: 3 });
	expect(answer.text).not.toMatch(/token_ids|logprobs|meta_info/);
	expect(station.calls[0]).toMatchObject({
		dialect: "sglang",
		completionIds: [11, 12, 13],
		logprobs: [-0.25, -0.5, -1.5],
		promptIds: [1, 2, 3, 4],
		losses: [],
	});
});

test("while an sglang engine works, the agent's stream is kept alive by comments", async () => {
	const engine = Promise.withResolvers<Exchange>();
	await using station = await openStation((exchange) => engine.resolve(exchange), {
		limits: { keepAliveMs: 10 },
	});
	await using tap = station.open({ endpoint: endpointOf(station, "sglang") });
	await using agent = await listen(station, tap.key);
	expect(await agent.next()).toBe(": keep-alive");
	(await engine.promise).response.end(JSON.stringify(sglangBody()));
	await agent.end();
	expect(agent.seen).toContain("[DONE]");
});

test("an sglang engine that fails while only comments went out is asked again, unseen by the agent", async () => {
	const engine = Promise.withResolvers<Exchange>();
	await using station = await openStation(
		(exchange) => (exchange.index === 0 ? engine.resolve(exchange) : json(sglangBody())(exchange)),
		{ limits: { keepAliveMs: 10 } },
	);
	await using tap = station.open({ endpoint: endpointOf(station, "sglang") });
	await using agent = await listen(station, tap.key);
	expect(await agent.next()).toBe(": keep-alive");
	(await engine.promise).response.destroy();
	await agent.end();
	expect(agent.seen).toContain("[DONE]");
	expect(station.calls).toMatchObject([{ complete: true, completionIds: [11, 12, 13] }]);
});

test("sentinel and impossible logprobs are clamped and marked, so that every number is finite", async () => {
	const tokens: Token[] = [...HELLO, [14, "!", -9999], [15, "?", Number.NaN]];
	const text = streams.vllm(tokens).replace('"token":"?","logprob":null', '"token":"?","logprob":-Infinity');
	expect(text).toContain("-Infinity");
	await using station = await openStation(stream(text));
	await using tap = station.open();
	const answer = await station.ask(tap.key);
	expect(answer.text).toContain('"content":"?"');
	expect(station.calls[0]).toMatchObject({
		completionIds: [11, 12, 13, 14, 15],
		logprobs: [-0.25, -0.5, -1.5, -9999, -9999],
		invalidTokens: [3, 4],
		complete: true,
	});
});

test("reasoning and tool calls are put together from their pieces", async () => {
	const chunk = (delta: object, finish: string | null = null) =>
		sse({ model: "m", choices: [{ index: 0, delta, finish_reason: finish }] });
	const call = (index: number, rest: object) => ({ tool_calls: [{ index, ...rest }] });
	await using station = await openStation(
		stream(
			[
				chunk({ role: "assistant", content: "" }),
				chunk({ reasoning: "think " }),
				chunk({ reasoning: "hard" }),
				chunk({ content: "Let me" }),
				chunk(call(0, { id: "call_a", type: "function", function: { name: "bash", arguments: "" } })),
				chunk(call(0, { function: { arguments: '{"command":' } })),
				chunk(call(1, { id: "call_b", type: "function", function: { name: "read", arguments: "{}" } })),
				chunk(call(0, { function: { arguments: '"ls"}' } })),
				chunk({}, "tool_calls"),
				sse("[DONE]"),
			].join(""),
		),
	);
	await using tap = station.open();
	await station.ask(tap.key);
	expect(station.calls[0]!.response).toEqual({
		finishReason: "tool_calls",
		message: {
			role: "assistant",
			content: "Let me",
			reasoning_content: "think hard",
			tool_calls: [
				{ id: "call_a", type: "function", function: { name: "bash", arguments: '{"command":"ls"}' } },
				{ id: "call_b", type: "function", function: { name: "read", arguments: "{}" } },
			],
		},
	});
	expect(station.calls[0]!.losses).toContain("token ids missing");
});

function endpointOf(
	station: Station,
	dialect: "vllm" | "sglang" | "openai" | "plain" | "hf_router" | "auto",
) {
	return { name: "fake", baseUrl: station.upstream.baseUrl, model: "real", dialect, disableThinking: false };
}

function comparable(call: ModelCall) {
	const { promptIds, completionIds, completionTexts, logprobs, invalidTokens, usage, response, complete } =
		call;
	const { message, finishReason } = response;
	return {
		promptIds,
		completionIds,
		completionTexts,
		logprobs,
		invalidTokens,
		usage,
		message,
		finishReason,
		complete,
	};
}

interface LiveAnswer extends AsyncDisposable {
	/** The next event. */
	next(): Promise<string>;
	end(): Promise<void>;
	readonly seen: string;
	readonly isBroken: boolean;
}

/** An agent that reads its stream as it comes. */
async function listen(station: Station, key: string): Promise<LiveAnswer> {
	const client = new Agent();
	const controller = new AbortController();
	const sent = request(`${station.url}/chat/completions`, {
		dispatcher: client,
		method: "POST",
		headers: { authorization: `Bearer ${key}` },
		body: JSON.stringify(CHAT),
		signal: controller.signal,
	});
	let seen = "";
	let taken = 0;
	let isBroken = false;
	let notify = () => {};
	const reading = (async () => {
		try {
			for await (const chunk of (await sent).body.setEncoding("utf8")) {
				seen += chunk;
				notify();
			}
		} catch {
			isBroken = true;
		}
		notify();
	})();
	return {
		get seen() {
			return seen;
		},
		get isBroken() {
			return isBroken;
		},
		async next() {
			for (;;) {
				const end = seen.indexOf("\n\n", taken);
				if (end >= 0) {
					const event = seen.slice(taken, end);
					taken = end + 2;
					return event;
				}
				await new Promise<void>((resolve) => {
					notify = resolve;
				});
			}
		},
		end: () => reading,
		async [Symbol.asyncDispose]() {
			controller.abort();
			await client.destroy();
		},
	};
}
