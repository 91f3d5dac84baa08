import { expect, test } from "vitest";
import { stream, streams } from "../fakes/replies.ts";
import { CHAT, openStation } from "./station.ts";

const user = (...content: unknown[]) => ({ messages: [{ role: "user", content }] });
const input = (...items: unknown[]) => ({ input: items });

test.each([
	["a picture at an address", user({ type: "image_url", image_url: { url: "http://10.0.0.1/x.png" } })],
	["a picture at an address, told in short", user({ type: "image_url", image_url: "https://x/y.png" })],
	["a file of the engine's machine", user({ type: "image_url", image_url: { url: "file:///etc/passwd" } })],
	["a document at an address", user({ type: "file", file: { file_data: "https://x/y.pdf" } })],
	["a tool at the provider", { ...CHAT, tools: [{ type: "mcp", server_url: "https://evil.example" }] }],
	[
		"a schema at an address",
		{
			...CHAT,
			tools: [
				{ type: "function", function: { name: "f", parameters: { items: [{ $ref: "http://10.0.0.1/s" }] } } },
			],
		},
	],
	[
		"an address as Anthropic spells it",
		user({ type: "image", source: { type: "url", url: "https://x/y" } }),
		"/messages",
	],
	["a stored file", user({ type: "document", source: { type: "file", file_id: "file_1" } }), "/messages"],
	[
		"an address inside a tool's result",
		user({ type: "tool_result", content: [{ type: "image", source: { type: "url", url: "https://x" } }] }),
		"/messages",
	],
	[
		"a search by the provider",
		{ ...user({ type: "text", text: "x" }), tools: [{ type: "web_search_20250305", name: "w" }] },
		"/messages",
	],
	[
		"a picture at an address in a response's input",
		input({ role: "user", content: [{ type: "input_image", image_url: "https://x" }] }),
		"/responses",
	],
	["a computer at the provider", { input: "x", tools: [{ type: "code_interpreter" }] }, "/responses"],
])("%s is no way around a box without network", async (_what, body, path = "/chat/completions") => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	const answer = await station.ask(tap.key, body, { path });
	expect(answer).toMatchObject({ status: 400, text: expect.stringContaining("remote_content") });
	expect(station.upstream.received).toEqual([]);
});

test.each([
	["a conversation that is no list", { messages: { role: "user", content: "x" } }],
	["no conversation", { prompt: "x" }],
	["a message that is no object", { messages: ["x"] }],
	["a kind of content nobody knows", user({ type: "video_url", video_url: { url: "https://x" } })],
	["a reference to what is stored", input({ type: "item_reference", id: "rs_1" }), "/responses"],
])("%s is refused, and nothing goes upstream", async (_what, body, path = "/chat/completions") => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	expect((await station.ask(tap.key, body, { path })).status).toBe(400);
	expect(station.upstream.received).toEqual([]);
});

const HOSTILE = {
	n: "4",
	best_of: 8,
	models: ["other/model"],
	provider: { order: ["elsewhere"] },
	plugins: [{ id: "web" }],
	web_search_options: {},
	data_sources: [{ type: "azure_search", parameters: { endpoint: "https://evil.example" } }],
	kv_transfer_params: { remote_host: "10.0.0.1", remote_port: 1 },
	custom_logit_processor: "gASV...",
	logits_processors: ["os.system"],
	prompt_token_ids: [1, 2],
	input_ids: [1, 2],
	previous_response_id: "resp_of_somebody",
	cache_salt: "x",
	priority: -100,
	vllm_xargs: { a: 1 },
	lora_path: "/etc",
	logprobs: true,
	top_logprobs: 1000,
	return_token_ids: false,
	chat_template: "{{ 1 }}",
	chat_template_kwargs: { enable_thinking: true },
	metadata: { a: "b" },
	temperature: 9,
	logit_bias: { 1: 100 },
};

test("a field that no agent needs does not reach the engine, and is on the record", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	const message = { role: "user", content: "hi", prefix: true, image: "https://x", content_url: "https://y" };
	const body = JSON.parse(`{"__proto__":{"n":2},${JSON.stringify({ ...CHAT, ...HOSTILE }).slice(1)}`);
	expect((await station.ask(tap.key, { ...body, messages: [message] })).status).toBe(200);
	const sent = station.upstream.received[0]!.body;
	expect(sent.messages).toEqual([{ role: "user", content: "hi" }]);
	expect(sent).toMatchObject({ logprobs: true, top_logprobs: 0, return_token_ids: true });
	const ours = ["logprobs", "top_logprobs", "return_token_ids", "temperature"];
	for (const field of Object.keys(HOSTILE)) if (!ours.includes(field)) expect(sent).not.toHaveProperty(field);
	expect(station.calls[0]!.request.patch).toMatchObject({
		n: null,
		kv_transfer_params: null,
		"messages[].image": null,
		"messages[].content_url": null,
		top_logprobs: 0,
	});
});

test("a box that makes up thousands of fields fills no record", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	const names = Array.from({ length: 5000 }, (_, n) => [`${"x".repeat(500)}${n}`, n]);
	await station.ask(tap.key, { ...CHAT, ...Object.fromEntries(names) });
	expect(JSON.stringify(station.calls[0]!.request.patch).length).toBeLessThan(10_000);
});

test("what an agent asks of the engine's logprobs teaches nobody anything", async () => {
	await using station = await openStation((exchange) =>
		Number(exchange.body.top_logprobs) > 20
			? void exchange.response.writeHead(400).end('{"error":{"message":"top_logprobs must be at most 20"}}')
			: stream(streams.vllm())(exchange),
	);
	await using hostile = station.open();
	await using honest = station.open({ boxId: "box_2" });
	await station.ask(hostile.key, { ...CHAT, logprobs: true, top_logprobs: 1000 });
	await station.ask(honest.key);
	expect(station.calls.at(-1)).toMatchObject({ logprobs: [-0.25, -0.5, -1.5], losses: [] });
});

test("pictures inside the request, words about addresses, and thinking pass unchanged", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open({ endpoint: { ...ENDPOINT, baseUrl: station.upstream.baseUrl } });
	const messages = [
		{ role: "system", content: "You are a coding agent.", cache_control: { type: "ephemeral" } },
		{
			role: "user",
			content: [
				{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA", detail: "low" } },
				{ type: "text", text: '{"url":"https://example.org"}' },
			],
		},
		{
			role: "assistant",
			content: null,
			reasoning_content: "hmm",
			tool_calls: [{ id: "1", type: "function", function: { name: "bash", arguments: "{}" } }],
		},
		{ role: "tool", tool_call_id: "1", content: "url: http://x" },
	];
	const parameters = { type: "object", properties: { a: { $ref: "#/$defs/a" } }, $defs: { a: {} } };
	const tools = [
		{ type: "function", function: { name: "bash", description: "d", parameters, strict: false } },
	];
	expect((await station.ask(tap.key, { ...CHAT, messages, tools })).status).toBe(200);
	expect(station.upstream.received[0]!.body).toMatchObject({ messages, tools, tool_choice: "auto" });
});

const ENDPOINT = {
	name: "fake",
	baseUrl: "",
	model: "real-model",
	dialect: "openai",
	disableThinking: false,
} as const;
