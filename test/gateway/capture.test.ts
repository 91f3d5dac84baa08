import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { ServedWeights } from "../../src/gateway/weights.ts";
import { Sampling } from "../../src/model/request.ts";
import { readCalls, TraceWriter } from "../../src/store/trace/trace-log.ts";
import { NEUTRAL } from "../export/calls.ts";
import { HELLO, json, PROMPT_IDS, sglangBody, stream, streams } from "../fakes/replies.ts";
import { CHAT, openStation } from "./station.ts";

test("a streamed call is captured with its ids, logprobs, usage, message and patch", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	const answer = await station.ask(tap.key, CHAT, {
		headers: { "x-session-id": "ses_1", "x-paddock-agent": "build" },
	});
	expect(answer.status).toBe(200);
	expect(answer.events.at(-1)).toBe("data: [DONE]");
	const [call] = station.calls;
	expect(call).toMatchObject({
		index: 0,
		attempt: 1,
		retryOf: null,
		purpose: "main",
		agentName: "build",
		sessionId: "ses_1",
		parentSessionId: null,
		protocol: "chat",
		dialect: "vllm",
		model: "engine-model",
		promptIds: PROMPT_IDS,
		completionIds: HELLO.map(([id]) => id),
		completionTexts: HELLO.map(([, text]) => text),
		logprobs: HELLO.map(([, , logprob]) => logprob),
		invalidTokens: [],
		usage: { promptTokens: 4, completionTokens: 3 },
		response: { message: { role: "assistant", content: "Hello ✓ wörld" }, finishReason: "stop" },
		complete: true,
		upstreamStatus: 200,
		error: null,
		losses: [],
	});
	expect(call!.request.patch).toEqual({
		...NEUTRAL,
		model: "real-model",
		max_tokens: 4096,
		logprobs: true,
		top_logprobs: 0,
		return_token_ids: true,
		include_reasoning: true,
	});
	expect(tap.counts).toEqual({ calls: 1, promptTokens: 4, completionTokens: 3 });
});

test("an engine that says its name on the last chunk is known by it", async () => {
	const named = streams.vllm().replace('"usage":', '"system_fingerprint":"vllm-0.32.0-1ae16e55","usage":');
	await using station = await openStation(stream(named));
	await using tap = station.open();
	await station.ask(tap.key);
	expect(station.calls[0]?.engine).toBe("vllm-0.32.0-1ae16e55");
});

test("a call knows its weights: the engine's word, else the trainer's at its start and at its end", async () => {
	const weights = new ServedWeights();
	const sglang = JSON.stringify(sglangBody()).replace('"meta_info":{', '"meta_info":{"weight_version":"7",');
	await using station = await openStation(
		(exchange) => {
			if (exchange.body.max_tokens === 1) weights.set("fake", "12");
			const isSglang = exchange.body.return_meta_info === true;
			return (isSglang ? json(JSON.parse(sglang)) : stream(streams.vllm()))(exchange);
		},
		{ weights },
	);
	await using tap = station.open();
	await station.ask(tap.key);
	weights.set("fake", "11");
	await station.ask(tap.key, { ...CHAT, max_tokens: 1 });
	const { baseUrl } = station.upstream;
	const endpoint = { name: "fake", baseUrl, model: "m", dialect: "sglang", disableThinking: false } as const;
	await using other = station.open({ endpoint, boxId: "box_2" });
	await station.ask(other.key);
	expect(station.calls.map((call) => call.weightVersions)).toEqual([undefined, ["11", "12"], ["7"]]);
});

test("alternatives are kept token by token when they were asked for, and survive the log", async () => {
	const others = [
		{ token: "Hel", logprob: -0.25 },
		{ token: "Ha", logprob: -1.2345678 },
	];
	const withOthers = streams.vllm().replace('"top_logprobs":[]', `"top_logprobs":${JSON.stringify(others)}`);
	await using station = await openStation(stream(withOthers));
	await using tap = station.open({ sampling: Sampling.parse({ topLogprobs: 2 }) });
	await station.ask(tap.key);
	expect(station.upstream.received[0]!.body.top_logprobs).toBe(2);
	const alternatives = [[others[0], { token: "Ha", logprob: -1.23457 }], [], []];
	expect(station.calls[0]!.alternatives).toEqual(alternatives);
	const log: Uint8Array[] = [];
	await new TraceWriter(async (bytes) => void log.push(bytes)).write(station.calls[0]!);
	const [read] = await Array.fromAsync(readCalls(() => Readable.from(log)));
	expect(read?.alternatives).toEqual(alternatives);
});

test("what the gateway asked for on its own account does not reach the agent", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	const answer = await station.ask(tap.key);
	expect(answer.text).toContain("Hel");
	expect(answer.text).toContain('"usage"');
	expect(answer.text).not.toMatch(/token_ids|logprobs/);
});
