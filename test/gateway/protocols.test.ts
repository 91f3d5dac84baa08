import { expect, test } from "vitest";
import { json, refusal, startStream, stream, streams } from "../fakes/replies.ts";
import type { JsonObject } from "../fakes/upstream.ts";
import { CHAT, openStation, UPSTREAM_KEY } from "./station.ts";

const named = (type: string, rest: JsonObject) =>
	`event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;

const RESPONSE = {
	id: "resp_1",
	model: "engine-model",
	status: "completed",
	output: [
		{ type: "message", role: "assistant", content: [{ type: "output_text", text: "Hellö" }] },
		{ type: "function_call", call_id: "call_1", name: "bash", arguments: '{"command":"ls"}' },
	],
	usage: { input_tokens: 9, output_tokens: 5, input_tokens_details: { cached_tokens: 4 } },
};

const MESSAGE = {
	id: "msg_1",
	type: "message",
	role: "assistant",
	model: "engine-model",
	content: [
		{ type: "text", text: "Hellö" },
		{ type: "tool_use", id: "toolu_1", name: "bash", input: { command: "ls" } },
	],
	stop_reason: "tool_use",
	usage: { input_tokens: 5, cache_read_input_tokens: 4, output_tokens: 5 },
};

const CASES = [
	{
		protocol: "responses",
		body: {
			model: "gw/model",
			stream: true,
			input: [{ role: "user", content: "hi" }],
			max_output_tokens: 9000,
		},
		text: [
			named("response.created", { response: { id: "resp_1", model: "engine-model" } }),
			named("response.output_text.delta", { delta: "Hel" }),
			named("response.output_text.delta", { delta: "lö" }),
			named("response.function_call_arguments.delta", { delta: '{"command":' }),
			named("response.output_item.done", { item: RESPONSE.output[1] }),
			named("response.completed", { response: RESPONSE }),
		].join(""),
		whole: RESPONSE,
		message: {
			role: "assistant",
			content: "Hellö",
			tool_calls: [
				{ id: "call_1", type: "function", function: { name: "bash", arguments: '{"command":"ls"}' } },
			],
		},
		finishReason: "tool_calls",
		sampled: "response.output_text.delta",
	},
	{
		protocol: "messages",
		body: { model: "gw/model", stream: true, messages: [{ role: "user", content: "hi" }], max_tokens: 9000 },
		text: [
			named("message_start", {
				message: {
					model: "engine-model",
					usage: { input_tokens: 5, cache_read_input_tokens: 4, output_tokens: 1 },
				},
			}),
			named("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
			named("ping", {}),
			named("content_block_delta", { index: 0, delta: { type: "text_delta", text: "Hel" } }),
			named("content_block_delta", { index: 0, delta: { type: "text_delta", text: "lö" } }),
			named("content_block_stop", { index: 0 }),
			named("content_block_start", {
				index: 1,
				content_block: { type: "tool_use", id: "toolu_1", name: "bash", input: {} },
			}),
			named("content_block_delta", { index: 1, delta: { type: "input_json_delta", partial_json: '{"comm' } }),
			named("content_block_delta", {
				index: 1,
				delta: { type: "input_json_delta", partial_json: 'and":"ls"}' },
			}),
			named("message_delta", { delta: { stop_reason: "tool_use" }, usage: { output_tokens: 5 } }),
			named("message_stop", {}),
		].join(""),
		whole: MESSAGE,
		message: { role: "assistant", content: MESSAGE.content },
		finishReason: "tool_use",
		sampled: "content_block_delta",
	},
] as const;

test.each(CASES)(
	"a $protocol stream passes unchanged and is captured, split at every byte",
	async (given) => {
		const bytes = Buffer.from(given.text);
		await using station = await openStation(async ({ response, body }) => {
			startStream({ response });
			const at = Number(body.user);
			await new Promise<void>((resolve) =>
				response.write(bytes.subarray(0, at), () => setImmediate(resolve)),
			);
			response.end(bytes.subarray(at));
		});
		await using tap = station.open({ budget: { maxCalls: 100_000 } });
		for (let at = 0; at < bytes.length; at += 1) {
			const answer = await station.ask(
				tap.key,
				{ ...given.body, user: String(at) },
				{ path: `/${given.protocol}` },
			);
			expect(answer.text).toBe(given.text);
		}
		expect(station.upstream.received[0]!.path).toBe(`/v1/${given.protocol}`);
		expect(station.calls).toHaveLength(bytes.length);
		for (const call of station.calls)
			expect(call).toMatchObject({
				protocol: given.protocol,
				model: "engine-model",
				complete: true,
				response: { message: given.message, finishReason: given.finishReason },
				usage: { promptTokens: 9, completionTokens: 5, cachedTokens: 4 },
				completionIds: [],
				losses: ["no token ids over this protocol"],
			});
	},
);

test.each(CASES)("a $protocol answer in one piece is captured too", async (given) => {
	await using station = await openStation(json(given.whole));
	await using tap = station.open();
	const answer = await station.ask(tap.key, { ...given.body, stream: false }, { path: `/${given.protocol}` });
	expect(JSON.parse(answer.text)).toEqual(given.whole);
	expect(station.calls[0]).toMatchObject({
		complete: true,
		response: { message: given.message, finishReason: given.finishReason },
		usage: { promptTokens: 9, completionTokens: 5 },
	});
});

test.each(CASES)(
	"a $protocol stream that ends before its last event is broken off, not ended",
	async (given) => {
		const cut = given.text.indexOf(given.sampled, given.text.indexOf(given.sampled) + 80);
		await using station = await openStation(stream(given.text.slice(0, given.text.indexOf("\n\n", cut) + 2)));
		await using tap = station.open();
		const answer = await station.ask(tap.key, given.body, { path: `/${given.protocol}` });
		expect(answer.isBroken).toBe(true);
		expect(station.calls[0]).toMatchObject({ complete: false, error: { code: "provider_truncated" } });
		expect(JSON.stringify(station.calls[0]!.response.message)).toContain("Hel");
	},
);

test("errors come in the shape of the protocol that was spoken", async () => {
	await using station = await openStation(refusal(401, "no"));
	await using _tap = station.open();
	const ask = async (path: string) => JSON.parse((await station.ask("wrong", {}, { path })).text);
	expect(await ask("/messages")).toEqual({
		type: "error",
		error: { type: "authentication_error", message: expect.any(String) },
	});
	for (const path of ["/chat/completions", "/responses"])
		expect(await ask(path)).toMatchObject({
			error: { type: "authentication_error", code: "invalid_api_key" },
		});
});

test("an Anthropic client may send its key as x-api-key, and so is the endpoint's sent", async () => {
	const [, given] = CASES;
	await using station = await openStation(stream(given.text));
	await using tap = station.open();
	const headers = { authorization: "", "x-api-key": tap.key, "anthropic-version": "2023-06-01" };
	const answer = await station.ask("", given.body, { path: "/messages", headers });
	expect(answer.status).toBe(200);
	expect(station.upstream.received[0]!.headers).toMatchObject({
		"x-api-key": UPSTREAM_KEY,
		"anthropic-version": "2023-06-01",
	});
});

test("a chat answer in one piece is captured, and ours is taken out of it", async () => {
	await using station = await openStation(({ response, body }) => {
		expect(body.stream_options).toBeUndefined();
		response.writeHead(200, { "content-type": "application/json" }).end(
			JSON.stringify({
				id: "c",
				model: "engine-model",
				prompt_token_ids: [1, 2],
				choices: [
					{
						index: 0,
						message: { role: "assistant", content: "Hi" },
						logprobs: { content: [{ token: "Hi", logprob: -0.5 }] },
						token_ids: [7],
						finish_reason: "stop",
					},
				],
				usage: { prompt_tokens: 2, completion_tokens: 1 },
			}),
		);
	});
	await using tap = station.open();
	const answer = await station.ask(tap.key, { ...CHAT, stream: false });
	expect(JSON.parse(answer.text)).toEqual({
		id: "c",
		model: "engine-model",
		choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
		usage: { prompt_tokens: 2, completion_tokens: 1 },
	});
	expect(station.calls[0]).toMatchObject({
		promptIds: [1, 2],
		completionIds: [7],
		logprobs: [-0.5],
		losses: [],
	});
});

test("an agent that asks for logprobs and ids itself does not get them: they are the rollout's", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	const answer = await station.ask(tap.key, { ...CHAT, logprobs: true, return_token_ids: true });
	expect(answer.text).not.toMatch(/logprobs|token_ids/);
	expect(station.calls[0]!.completionIds).toEqual([11, 12, 13]);
});

test("an agent that did not ask for usage does not get it, and it is captured all the same", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	const { stream_options: _options, ...body } = CHAT;
	const answer = await station.ask(tap.key, body);
	expect(answer.text).not.toContain("usage");
	expect(answer.events.at(-1)).toBe("data: [DONE]");
	expect(station.calls[0]!.usage).toEqual({ promptTokens: 4, completionTokens: 3 });
});

test("an engine that answers in one piece although it was asked for a stream still gives the agent one", async () => {
	const message = { role: "assistant", content: "Hi" };
	await using station = await openStation(
		json({ model: "m", choices: [{ index: 0, message, finish_reason: "stop" }] }),
	);
	await using tap = station.open();
	const answer = await station.ask(tap.key);
	expect(answer.events.at(-1)).toBe("data: [DONE]");
	expect(answer.text).toContain('"content":"Hi"');
});

test("a comment of the engine is passed on, so that the agent's patience is renewed", async () => {
	await using station = await openStation(stream(`: processing\n\n${streams.vllm()}`));
	await using tap = station.open();
	expect((await station.ask(tap.key)).events[0]).toBe(": processing");
});

test("without a sink calls pass and are counted, and no token is asked for", async () => {
	await using station = await openStation(stream(streams.plain()));
	const counted: number[] = [];
	await using tap = station.gateway.openTap({
		rolloutId: "rol_2",
		attempt: 1,
		boxId: "box_9",
		overTcp: true,
		endpoint: {
			name: "e",
			baseUrl: station.upstream.baseUrl,
			model: "m",
			dialect: "vllm",
			disableThinking: false,
		},
		sampling: { maxTokensCap: 10, topLogprobs: 0 },
		budget: { maxCalls: 5 },
		onCallEnd: (call) => void counted.push(call.completionTokens),
	});
	await station.ask(tap.key);
	expect(counted).toEqual([3]);
	expect(station.upstream.received[0]!.body).not.toHaveProperty("return_token_ids");
});
