import { once } from "node:events";
import { Duplex, duplexPair } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
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

test("a box that is refused again and again does not fill the log, nor hide what another one does", async () => {
	await using station = await openStation(stream(streams.vllm()));
	for (let i = 0; i < 40; i += 1) await askThrough(station, "box_1", "nonsense");
	await askThrough(station, "box_2", "nonsense");
	expect(station.log.filter((line) => line.includes("box_1"))).toHaveLength(6);
	expect(station.log.filter((line) => line.includes("box_2"))).toHaveLength(1);
});

test("a revoked key gets 401", async () => {
	await using station = await openStation(stream(streams.vllm()));
	const tap = station.open();
	await tap.revoke();
	expect((await station.ask(tap.key)).status).toBe(401);
});

test("many connections of one box hold no more together than one box may: the next waits, other boxes do not", async () => {
	await using station = await openStation(stream(streams.vllm()), { limits: { maxHeldBytes: 10_000 } });
	await using tap = station.open();
	await using other = station.open({ boxId: "box_2" });
	const half = halfOfA(station.url, tap.key, 9000);
	const large = { ...CHAT, messages: [{ role: "user", content: "x".repeat(4000) }] };
	await vi.waitFor(async () => expect(await isPutOff(station.ask(tap.key, large))).toBe(true));
	const waiting = station.ask(tap.key, large);
	expect((await station.ask(other.key, large)).status).toBe(200);
	half.destroy();
	expect((await waiting).status).toBe(200);
});

test("boxes together hold no more than the machine has for them; a box with ordinary requests is served all the same", async () => {
	const limits = { maxHeldBytes: 10_000, ownHeldBytes: 2000, maxHeldBytesInAll: 7500, clientBodyMs: 300 };
	const long = (text: string) => ({ ...CHAT, messages: [{ role: "user", content: text.repeat(2000) }] });
	await using station = await openStation(
		(exchange) => {
			if (!JSON.stringify(exchange.body).includes("hold")) return stream(streams.vllm())(exchange);
		},
		{ limits: { ...limits, upstreamHeadersMs: 60_000 } },
	);
	await using hostile = station.open();
	await using other = station.open({ boxId: "box_2" });
	const held = station.ask(hostile.key, long("hold")).catch(() => "cut");
	await station.upstream.until(() => station.upstream.received.length === 1);
	expect((await station.ask(other.key, long("ok"))).status).toBe(429);
	expect((await station.ask(other.key)).status).toBe(200);
	await hostile.revoke();
	expect(await held).toBe("cut");
	expect((await station.ask(other.key, long("ok"))).status).toBe(200);
});

/** A request that says it is so long, and stops half-way. */
function halfOfA(url: string, key: string, length: number) {
	const socket = connect(url);
	socket.write(
		`POST /v1/chat/completions HTTP/1.1\r\nhost: gw\r\nauthorization: Bearer ${key}\r\ncontent-length: ${length}\r\n\r\n${"x".repeat(length / 2)}`,
	);
	return socket;
}

/** Whether it has no answer after all that could be answered was. */
async function isPutOff(asking: Promise<unknown>): Promise<boolean> {
	return await Promise.race([asking.then(() => false), delay(200, true)]);
}

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

test.each([
	["deeper than can be written again", "[".repeat(200_000) + "]".repeat(200_000)],
	["of more values than fit into memory", `[${"[],".repeat(200_000)}0]`],
	["that only pretends to be a text", `"\\\\",${"[".repeat(1000)}`],
])("a body %s is refused before it is parsed, and others go on", async (_what, value) => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	await using other = station.open({ boxId: "box_2" });
	const response = await fetch(`${station.url}/chat/completions`, {
		method: "POST",
		headers: { authorization: `Bearer ${tap.key}` },
		body: `{"messages":[],"user":${value}}`,
	});
	expect(response.status).toBe(400);
	expect(await response.text()).toMatch(/the request is (deeper|of more)/);
	expect(station.upstream.received).toHaveLength(0);
	expect((await station.ask(other.key)).status).toBe(200);
});

test("brackets and commas inside a text are just text, however long", async () => {
	await using station = await openStation(stream(streams.vllm()));
	await using tap = station.open();
	const messages = [{ role: "user", content: '[{",\\"'.repeat(100_000) }];
	expect((await station.ask(tap.key, { ...CHAT, messages })).status).toBe(200);
	expect(station.upstream.received[0]!.body.messages).toEqual(messages);
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
