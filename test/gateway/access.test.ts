import { once } from "node:events";
import { Duplex, duplexPair } from "node:stream";
import { expect, test, vi } from "vitest";
import { WARM_UP } from "../../src/model/warm-up.ts";
import { stream, streams } from "../fakes/replies.ts";
import { CHAT, connect, openStation, type Station, UPSTREAM_KEY } from "./station.ts";

test("the same key is good on a connection out of its own box and nowhere else", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open({ overTcp: false });
	expect(await askThrough(station, "box_1", tap.key)).toContain("HTTP/1.1 200");
	expect(await askThrough(station, "box_2", tap.key)).toContain("HTTP/1.1 401");
	expect((await station.ask(tap.key)).status).toBe(401);
	expect(station.upstream.received).toHaveLength(1);
});

/** HTTP by hand over an in-memory connection, as a sandbox hands it over. */
async function askThrough(station: Station, boxId: string, key: string, chat = CHAT): Promise<string> {
	const [ours, theirs] = duplexPair();
	station.gateway.accept(theirs, boxId);
	const body = JSON.stringify(chat);
	ours.write(
		`POST /v1/chat/completions HTTP/1.1\r\nhost: gw\r\nauthorization: Bearer ${key}\r\nconnection: close\r\n` +
			`content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
	);
	let text = "";
	for await (const chunk of Duplex.from(ours)) text += String(chunk);
	return text;
}

test.each([
	["no key", { authorization: "" }],
	["a wrong key", { authorization: "Bearer nonsense" }],
	["the upstream's key", { authorization: `Bearer ${UPSTREAM_KEY}` }],
])(
	"%s gets 401 in the protocol's own shape, is logged, and nothing goes upstream",
	async (_what, headers) => {
		await using station = await openStation(stream(streams.vllm()));
		await using _tap = station.open();
		const answer = await station.ask("unused", CHAT, { headers });
		expect(answer.status).toBe(401);
		expect(JSON.parse(answer.text)).toMatchObject({ error: { code: "invalid_api_key" } });
		expect(station.upstream.received).toHaveLength(0);
		expect(station.log.join()).toContain("invalid_api_key");
	},
);

test("a revoked key gets 401", async () => {
	await using station = await openStation(stream(streams.vllm()));
	const tap = station.open();
	await tap.revoke();
	expect((await station.ask(tap.key)).status).toBe(401);
});

test("many connections of one box hold no more together than one box may", async () => {
	await using station = await openStation(stream(streams.vllm()), { limits: { maxHeldBytes: 10_000 } });
	await using tap = station.open();
	await using other = station.open({ boxId: "box_2" });
	const half = connect(station.url);
	half.write(
		`POST /v1/chat/completions HTTP/1.1\r\nhost: gw\r\nauthorization: Bearer ${tap.key}\r\ncontent-length: 9000\r\n\r\n${"x".repeat(8000)}`,
	);
	const large = { ...CHAT, messages: [{ role: "user", content: "x".repeat(4000) }] };
	await vi.waitFor(async () => expect((await station.ask(tap.key, large)).status).toBe(429));
	expect((await station.ask(other.key, large)).status).toBe(200);
	half.destroy();
	await vi.waitFor(async () => expect((await station.ask(tap.key, large)).status).toBe(200));
});

test("thousands of slashes in a path cost no more than any other path", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	const cpu = process.cpuUsage();
	for (let i = 0; i < 10; i += 1)
		expect((await station.ask(tap.key, CHAT, { path: `/${"/".repeat(15_000)}x` })).status).toBe(404);
	expect(process.cpuUsage(cpu).user / 1e6).toBeLessThan(3);
});

test("a body over the limit is refused with 413 while others are served", async () => {
	await using station = await openStation(stream(streams.vllm()), { limits: { maxBodyBytes: 5000 } });
	await using tap = station.open();
	const large = { ...CHAT, messages: [{ role: "user", content: "x".repeat(6000) }] };
	const [refused, served] = await Promise.all([station.ask(tap.key, large), station.ask(tap.key)]);
	expect(refused.status).toBe(413);
	expect(served.status).toBe(200);
	expect(station.calls).toHaveLength(1);
});

test("a client that sends its headers or its body drop by drop is cut off", async () => {
	await using station = await openStation(stream(streams.vllm()), {
		limits: { clientHeadersMs: 50, clientBodyMs: 50 },
	});
	await using tap = station.open();
	const slowHeaders = connect(station.url);
	slowHeaders.write("POST /v1/chat/completions HTTP/1.1\r\nhost: gw\r\n");
	const slowBody = connect(station.url);
	slowBody.write(
		`POST /v1/chat/completions HTTP/1.1\r\nhost: gw\r\nauthorization: Bearer ${tap.key}\r\ncontent-length: 100\r\n\r\n{`,
	);
	const closed = Promise.all([slowHeaders, slowBody].map((socket) => once(socket.resume(), "close")));
	expect((await station.ask(tap.key)).status).toBe(200);
	await closed;
	expect(station.calls).toHaveLength(1);
});

test("a body nested deeper than it can be written again ends its own rollout only", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	await using other = station.open({ boxId: "box_2" });
	const depth = 200_000;
	const body = `{"messages":[],"user":${"[".repeat(depth)}${"]".repeat(depth)}}`;
	const response = await fetch(`${station.url}/chat/completions`, {
		method: "POST",
		headers: { authorization: `Bearer ${tap.key}` },
		body,
	});
	expect(response.status).toBe(400);
	expect(station.upstream.received).toHaveLength(0);
	expect((await station.ask(other.key)).status).toBe(200);
});

test("a primed key is answered without any upstream and records nothing, until it is disposed of", async () => {
	await using station = await openStation(stream(streams.vllm()));
	{
		using _priming = station.gateway.prime("box_1", "pk-warm");
		const text = await askThrough(station, "box_1", "pk-warm");
		expect(text).toContain('"finish_reason":"stop"');
		expect(text).toContain("[DONE]");
		expect(await askThrough(station, "box_2", "pk-warm")).toContain("HTTP/1.1 401");
	}
	expect(await askThrough(station, "box_1", "pk-warm")).toContain("HTTP/1.1 401");
	await using _tap = station.open({ key: "pk-warm", overTcp: false });
	expect(await askThrough(station, "box_1", "pk-warm")).toContain("Hel");
	expect(station.upstream.received).toHaveLength(1);
});

test("an agent that warms up calls its shell once where that is asked for, and then has nothing more to do", async () => {
	await using station = await openStation(stream(streams.vllm()));
	using _priming = station.gateway.prime("box_1", "pk-warm");
	const asked = { ...CHAT, messages: [{ role: "user", content: WARM_UP.shell }] };
	const first = await askThrough(station, "box_1", "pk-warm", asked);
	expect(first).toContain('"finish_reason":"tool_calls"');
	expect(first).toContain('"name":"bash"');
	const answered = [...asked.messages, { role: "assistant", content: null }, { role: "tool", content: "" }];
	const second = await askThrough(station, "box_1", "pk-warm", { ...asked, messages: answered });
	expect(second).toContain('"finish_reason":"stop"');
});

test("the agent's key and our own header never go upstream; the endpoint's key does", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	await station.ask(tap.key, CHAT, { headers: { "x-paddock-agent": "build", "x-session-id": "ses_1" } });
	const { headers } = station.upstream.received[0]!;
	expect(headers.authorization).toBe(`Bearer ${UPSTREAM_KEY}`);
	expect(headers["x-paddock-agent"]).toBeUndefined();
	expect(JSON.stringify(headers)).not.toContain(tap.key);
});

const user = (...content: object[]) => ({ messages: [{ role: "user", content }] });

test.each([
	["a picture at an address", user({ type: "image_url", image_url: { url: "http://10.0.0.1/x.png" } })],
	["a file of the engine's machine", user({ type: "video_url", video_url: { url: "file:///etc/passwd" } })],
	["an address as Anthropic spells it", user({ type: "image", source: { type: "url", url: "https://x/y" } })],
	[
		"an address inside a tool's result",
		user({ type: "tool_result", content: [{ type: "image", source: { type: "url", url: "https://x" } }] }),
	],
	[
		"an address in a response's input",
		{ input: [{ role: "user", content: [{ type: "input_file", file_url: "https://x" }] }] },
	],
	["a search by the provider", { ...CHAT, web_search_options: {} }],
	["a tool at the provider", { ...CHAT, tools: [{ type: "mcp", server_url: "https://evil.example" }] }],
])("%s is no way around a box without network", async (_what, body) => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	const answer = await station.ask(tap.key, body);
	expect(answer).toMatchObject({ status: 400, text: expect.stringContaining("remote_content") });
	expect(station.upstream.received).toEqual([]);
});

test("a picture inside the request, and words about addresses, pass", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	const picture = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
	const words = { type: "text", text: '{"url":"https://example.org"}' };
	const messages = [
		...user(picture, words).messages,
		{ role: "tool", tool_call_id: "1", content: "url: http://x" },
	];
	expect((await station.ask(tap.key, { ...CHAT, messages })).status).toBe(200);
});
