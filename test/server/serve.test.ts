import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import type { RolloutEvent } from "../../src/model/event.ts";
import { type Serving, serve } from "../../src/server/serve.ts";
import { type IdlePaddock, openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { request } from "./caller.ts";
import { Dice } from "./fuzz.ts";

let paddock: IdlePaddock;
let serving: Serving;
let client: Client;

beforeAll(async () => {
	paddock = await openIdlePaddock();
	serving = await serve(paddock, { host: "127.0.0.1", port: 0 });
	client = createClient({ baseUrl: serving.url });
});
afterAll(async () => {
	await serving[Symbol.asyncDispose]();
	await paddock[Symbol.asyncDispose]();
});

async function createOne(): Promise<string> {
	return (await client.submit(request())).rollouts[0]!.id;
}

/** Writes events one by one until told to stop, then ends the rollout. */
async function play(id: string, count: number): Promise<void> {
	const rollout = await paddock.store.begin(id, "w");
	for (let index = 0; index < count; index++)
		await paddock.store.append(id, rollout!.attempt, [{ type: "note", text: `event ${index} – ünïcode\n` }]);
	await paddock.store.finish(id, 1, { outcome: "completed", reward: 1, failure: null, summary: null });
}

/** One connection, dropped after `bytes` of it were read. */
async function readAndCut(id: string, last: number, bytes: number): Promise<RolloutEvent[]> {
	const cut = new AbortController();
	const response = await fetch(`${serving.url}/api/v1/rollouts/${id}/events`, {
		headers: { accept: "text/event-stream", "last-event-id": String(last) },
		signal: cut.signal,
	});
	let text = "";
	const decoder = new TextDecoder();
	try {
		for await (const chunk of response.body!) {
			text += decoder.decode(chunk.subarray(0, Math.max(0, bytes - text.length)), { stream: true });
			if (text.length >= bytes) break;
		}
	} finally {
		cut.abort();
	}
	// Only what ended with an empty line was received whole.
	const whole = text.slice(0, text.lastIndexOf("\n\n") + 2);
	return [...whole.matchAll(/^data: (.*)$/gm)].map((match) => JSON.parse(match[1]!));
}

describe("events over a socket", () => {
	test("a client cut 50 times at random has the same events as one that never left", async () => {
		const id = await createOne();
		const steady = Array.fromAsync(client.events(id));
		const playing = play(id, 400);
		const dice = new Dice(7);
		const pieced: RolloutEvent[] = [];
		let cuts = 0;
		while (pieced.at(-1)?.type !== "rollout-end") {
			const isCut = cuts < 50;
			const bytes = isCut ? 20 + dice.roll(1200) : Number.POSITIVE_INFINITY;
			pieced.push(...(await readAndCut(id, pieced.at(-1)?.seq ?? 0, bytes)));
			if (isCut) cuts++;
		}
		await playing;
		expect(cuts).toBe(50);
		const stored = await paddock.store.events(id, { after: 0, limit: 1000 });
		expect(stored.map((event) => event.seq)).toEqual(stored.map((_, index) => index + 1));
		expect(await steady).toEqual(stored);
		expect(pieced).toEqual(stored);
	});

	test("the client itself survives a connection that is cut again and again", async () => {
		const id = await createOne();
		await using flaky = await openCuttingProxy(serving.url, 700);
		const followed = Array.fromAsync(createClient({ baseUrl: flaky.url }).events(id));
		await play(id, 24);
		expect(await followed).toEqual(await paddock.store.events(id, { after: 0, limit: 1000 }));
		expect(flaky.cuts()).toBeGreaterThan(5);
	});

	test("a caller that hangs up leaves nobody watching", async () => {
		const id = await createOne();
		const stop = new AbortController();
		const events = client.events(id, { signal: stop.signal });
		expect((await events.next()).value).toMatchObject({ type: "rollout-queued" });
		const ended = events.next();
		stop.abort();
		expect((await ended).done).toBe(true);
	});

	test("an unknown rollout is an error at once, not a reason to try again", async () => {
		const first = client.events("rollout_none").next();
		await expect(first).rejects.toMatchObject({ status: 404, code: "not_found" });
	});
});

describe("listening", () => {
	test("a closing server ends its streams, and says at once when its port is taken", async () => {
		const second = await serve(paddock, { host: "127.0.0.1", port: 0 });
		const taken = serve(paddock, { host: "127.0.0.1", port: Number(new URL(second.url).port) });
		await expect(taken).rejects.toMatchObject({ code: "port_taken" });
		const id = await createOne();
		const response = await fetch(`${second.url}/api/v1/rollouts/${id}/events?format=sse`);
		const closing = second[Symbol.asyncDispose]();
		expect(await response.text()).toContain("rollout-queued");
		await closing;
		await expect(fetch(second.url)).rejects.toThrow();
	});

	test("a request in flight is answered before the server is gone", async () => {
		const second = await serve(paddock, { host: "127.0.0.1", port: 0 });
		const id = await createOne();
		const waiting = createClient({ baseUrl: second.url }).finalize(id, 60);
		await once(second.server, "request");
		await second[Symbol.asyncDispose]();
		expect((await waiting).rollout_id).toBe(id);
	});

	test("a caller that never finishes its request is cut off", async () => {
		await using impatient = await serve(paddock, { host: "127.0.0.1", port: 0, requestTimeoutMs: 50 });
		const { port, host } = new URL(impatient.url);
		const socket = connect(Number(port), "127.0.0.1");
		const head = "Content-Type: application/json\r\nContent-Length: 1000";
		socket.write(`POST /api/v1/rollouts HTTP/1.1\r\nHost: ${host}\r\n${head}\r\n\r\n{"task":`);
		const [answer] = (await once(socket, "data")) as [Buffer];
		expect(answer.toString()).toMatch(/^HTTP\/1.1 408/);
		socket.destroy();
	});

	test("beyond loopback nothing starts without a token", async () => {
		await expect(serve(paddock, { host: "0.0.0.0", port: 0 })).rejects.toMatchObject({
			code: "token_required",
		});
	});
});

describe("upgrades", () => {
	test.each([
		["no token", "", "401"],
		[
			"the token, a foreign page",
			"Authorization: Bearer secret-token\r\nOrigin: https://evil.example\r\n",
			"403",
		],
		["the token, another path", "Authorization: Bearer secret-token\r\n", "404"],
	])("%s: %s", async (_, headers, status) => {
		await using guarded = await openIdlePaddock({ token: "secret-token" });
		let reached = 0;
		await using door = await serve(guarded, {
			host: "127.0.0.1",
			port: 0,
			onUpgrade: () => {
				reached++;
				return false;
			},
		});
		const { port, host } = new URL(door.url);
		const socket = connect(Number(port), "127.0.0.1");
		socket.write(
			`GET /ws HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${headers}\r\n`,
		);
		const [answer] = (await once(socket, "data")) as [Buffer];
		expect(answer.toString()).toMatch(new RegExp(`^HTTP/1.1 ${status}`));
		expect(reached).toBe(status === "404" ? 1 : 0);
		socket.destroy();
	});
});

test("a refused upgrade leaves no connection behind, even when the caller never hangs up", async () => {
	await using guarded = await openIdlePaddock({ token: "secret-token" });
	await using door = await serve(guarded, { host: "127.0.0.1", port: 0, onUpgrade: () => false });
	const { port, host } = new URL(door.url);
	const socket = connect({ port: Number(port), host: "127.0.0.1", allowHalfOpen: true });
	socket.write(`GET /ws HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
	await once(socket, "data");
	const open = () => new Promise((resolve) => door.server.getConnections((_error, count) => resolve(count)));
	await vi.waitFor(async () => expect(await open()).toBe(0));
	socket.destroy();
});

test("the client follows no redirect: a key in its body is for the server it was told of", async () => {
	const heard: string[] = [];
	const elsewhere = createServer((socket) => void heard.push(String(socket.remotePort))).listen(
		0,
		"127.0.0.1",
	);
	await once(elsewhere, "listening");
	const { port } = elsewhere.address() as AddressInfo;
	const moved = createServer((socket) => {
		socket.end(`HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:${port}/\r\nContent-Length: 0\r\n\r\n`);
	}).listen(0, "127.0.0.1");
	await once(moved, "listening");
	const baseUrl = `http://127.0.0.1:${(moved.address() as AddressInfo).port}`;
	const asked = createClient({ baseUrl, token: "t" }).submit(request());
	await expect(asked).rejects.toMatchObject({ status: 307, code: "not_paddock" });
	expect(heard).toEqual([]);
	moved.close();
	elsewhere.close();
});

/** A TCP proxy that drops every connection after `bytes` of the answer. */
async function openCuttingProxy(target: string, bytes: number) {
	let cuts = 0;
	const open = new Set<Socket>();
	const server = createServer((inbound) => {
		open.add(inbound);
		const outbound = connect(Number(new URL(target).port), "127.0.0.1");
		let passed = 0;
		inbound.pipe(outbound);
		outbound.on("data", (chunk: Buffer) => {
			const part = chunk.subarray(0, bytes - passed);
			passed += part.length;
			if (passed < bytes) return inbound.write(part);
			cuts++;
			outbound.destroy();
			return inbound.end(part);
		});
		outbound.on("close", () => inbound.end());
		inbound.on("close", () => {
			open.delete(inbound);
			outbound.destroy();
		});
		for (const socket of [inbound, outbound]) socket.on("error", () => socket.destroy());
	});
	server.listen(0, "127.0.0.1");
	await once(server, "listening");
	const { port } = server.address() as { port: number };
	return {
		url: `http://127.0.0.1:${port}`,
		cuts: () => cuts,
		async [Symbol.asyncDispose]() {
			server.close();
			for (const socket of open) socket.destroy();
			await once(server, "close");
		},
	};
}
