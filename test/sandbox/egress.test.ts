import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import net from "node:net";
import { networkInterfaces } from "node:os";
import { duplexPair, PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { BoxSpec } from "../../src/model/task.ts";
import { Egress, isListed } from "../../src/sandbox/egress/egress.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import { requirePart } from "../fixtures/parts.ts";
import { startWorld } from "./way-out.ts";

const PLAIN = "GET http://x.example/ HTTP/1.1\r\nhost: x.example\r\n";

test("an allowlist names hosts, whole domains below a star, and ports", () => {
	const network = { allow: ["example.org", "*.packages.example", "git.example:9418"] };
	const listed = (host: string, port: number) => isListed(network, host, port);
	expect([
		listed("example.org", 443),
		listed("EXAMPLE.org.", 80),
		listed("files.packages.example", 443),
	]).toEqual([true, true, true]);
	expect([listed("git.example", 9418), listed("git.example", 443)]).toEqual([true, false]);
	expect([
		listed("evil-example.org", 443),
		listed("packages.example", 443),
		listed("example.org", 22),
	]).toEqual([false, false, false]);
	expect(listed("example.org.evil.net", 443)).toBe(false);
});

test("a listed host is reached by CONNECT and by plain http; anything else is refused and on record", async () => {
	await using world = await startWorld();
	await using egress = new Egress({ network: { allow: ["good.example"] }, ...world.routes });
	expect(await ask(egress, "CONNECT good.example:443 HTTP/1.1\r\n\r\n", "GET /hi HTTP/1.0\r\n\r\n")).toMatch(
		/200 .*world \/hi/s,
	);
	expect(
		await ask(
			egress,
			"GET http://good.example/plain?q=1 HTTP/1.1\r\nhost: good.example\r\nconnection: close\r\n\r\n",
		),
	).toMatch(/200 .*world \/plain\?q=1/s);
	expect(await ask(egress, "CONNECT bad.example:443 HTTP/1.1\r\n\r\n")).toMatch(/^HTTP\/1.1 403/);
	expect(egress.asked).toEqual([
		{ host: "good.example", port: 443, allowed: true, reason: "allowed", count: 1 },
		{ host: "good.example", port: 80, allowed: true, reason: "allowed", count: 1 },
		{ host: "bad.example", port: 443, allowed: false, reason: "not on the allowlist", count: 1 },
	]);
});

test("a listed name that leads to a private address leads nowhere, whichever of its addresses it is", async () => {
	await using world = await startWorld();
	const resolve = async () => ["1.1.1.1", "127.0.0.1"];
	await using egress = new Egress({ network: "internet", dial: world.routes.dial, resolve });
	expect(await ask(egress, "CONNECT rebinding.example:443 HTTP/1.1\r\n\r\n")).toMatch(/^HTTP\/1.1 403/);
	expect(await ask(egress, "CONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n")).toMatch(/^HTTP\/1.1 403/);
	expect(await ask(egress, "CONNECT [::1]:80 HTTP/1.1\r\n\r\n")).toMatch(/^HTTP\/1.1 403/);
	expect(
		await ask(egress, "GET http://169.254.169.254/latest HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"),
	).toMatch(/403/);
	expect(egress.asked.every((entry) => !entry.allowed)).toBe(true);
});

const HOSTILE_ANSWERS: [name: string, answer: string][] = [
	["a status of 000", "HTTP/1.1 000 OK\r\ncontent-length: 0\r\n\r\n"],
	["a status of 099", "HTTP/1.1 099 OK\r\ncontent-length: 0\r\n\r\n"],
	["an upgrade nobody asked for", "HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"],
];

test.each(HOSTILE_ANSWERS)("%s from outside becomes a 502 and harms nobody else", async (_name, answer) => {
	await using world = await startWorld(answer);
	await using egress = new Egress({ network: "internet", ...world.routes });
	expect(await ask(egress, `${PLAIN}connection: close\r\n\r\n`)).toMatch(/^HTTP\/1.1 502/);
});

test("headers that are about one connection only are not handed on, in either direction", async () => {
	await using world = await startWorld("HTTP/1.1 200 OK\r\ntrailer: x\r\ncontent-length: 2\r\n\r\nhi");
	await using egress = new Egress({ network: "internet", ...world.routes });
	const said = await ask(egress, `${PLAIN}trailer: x\r\nupgrade: y\r\nconnection: close\r\n\r\n`);
	expect(said).toMatch(/^HTTP\/1.1 200 .*hi$/s);
	expect(said).not.toContain("trailer");
	expect(world.heard.join("")).not.toMatch(/trailer|upgrade/);
});

test("an answer that breaks off is broken off for the box, too", async () => {
	await using world = await startWorld("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nabc");
	await using egress = new Egress({ network: "internet", ...world.routes });
	expect(await ask(egress, `${PLAIN}\r\n`)).toMatch(/abc$/);
});

test("a resolver that fails costs only the connection that asked", async () => {
	await using egress = new Egress({ network: "internet", resolve: () => Promise.reject(new Error("dns")) });
	expect(await ask(egress, "CONNECT x.example:443 HTTP/1.1\r\n\r\n")).toBe("");
	expect(await ask(egress, `${PLAIN}\r\n`)).toBe("");
});

test("neither this machine nor its neighbours can be reached, whatever their addresses", async () => {
	await using egress = new Egress({ network: "internet" });
	const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
	for (const { address, family } of own) {
		const host = family === "IPv6" ? `[${address.toUpperCase()}]` : address;
		expect(await ask(egress, `CONNECT ${host}:443 HTTP/1.1\r\n\r\n`)).toMatch(/^HTTP\/1.1 403/);
	}
	expect(await ask(egress, "CONNECT 168.63.129.16:80 HTTP/1.1\r\n\r\n")).toMatch(/^HTTP\/1.1 403/);
});

test("a box that reads slowly loses nothing of what a server said before it hung up", async () => {
	const answer = Buffer.alloc(1_000_000, "x");
	await using world = await startWorld(answer.toString());
	const outside = world.routes.dial();
	await using egress = new Egress({ network: "internet", ...world.routes, dial: () => outside });
	const [connection, box] = duplexPair();
	egress.accept(connection);
	box.write("CONNECT x.example:443 HTTP/1.1\r\n\r\n");
	box.write("go");
	let size = 0;
	for await (const chunk of box) {
		size += (chunk as Buffer).length;
		// The last of it is on its way in here when the server's connection is already gone.
		if (size > answer.length - 30_000 && !outside.closed) await once(outside, "close");
	}
	expect(size - "HTTP/1.1 200 Connection established\r\n\r\n".length).toBe(answer.length);
});

test("a tunnel that breaks off ends, and nothing of ours is added to it", async () => {
	const server = net.createServer((socket) => socket.once("data", () => socket.resetAndDestroy()));
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const { port } = server.address() as net.AddressInfo;
	const routes = { resolve: async () => ["1.1.1.1"], dial: () => net.connect(port, "127.0.0.1") };
	await using egress = new Egress({ network: "internet", ...routes });
	expect(await ask(egress, "CONNECT x.example:443 HTTP/1.1\r\n\r\n", "hello")).toBe(
		"HTTP/1.1 200 Connection established\r\n\r\n",
	);
	server.close();
});

test("names that nobody answers for keep nobody else waiting for theirs", async () => {
	const silent = createSocket("udp4").bind(0, "127.0.0.1");
	await once(silent, "listening");
	const egress = new Egress({ network: "internet", nameServers: [`127.0.0.1:${silent.address().port}`] });
	const answers = Array.from({ length: 64 }, (_, index) =>
		ask(egress, `CONNECT name-${index}.example:443 HTTP/1.1\r\n\r\n`).then(() => "a name"),
	);
	await once(silent, "message");
	const ours = lookup("localhost").then(() => "our own");
	expect(await Promise.race([ours, ...answers])).toBe("our own");
	await egress[Symbol.asyncDispose]();
	silent.close();
});

test("a box cannot use up the host's descriptors: beyond 256 connections the newest is closed", async () => {
	await using egress = new Egress({ network: "internet" });
	const connections = Array.from({ length: 257 }, () => new PassThrough());
	for (const connection of connections) egress.accept(connection);
	expect(connections.map((connection) => connection.destroyed)).toEqual([
		...Array.from({ length: 256 }, () => false),
		true,
	]);
});

test("in a box with an allowlist the proxy is the only way out, and what was asked for is on record", async (context) => {
	await using backend = await openLocalBackend();
	requirePart(context, "bubblewrap", (await backend.available()).ok, "apt-get install bubblewrap");
	const spec = BoxSpec.parse({ network: { allow: ["listed.invalid"] } });
	await using box = await backend.open({ spec, onGateway: (c) => c.destroy() });
	const { port } = new URL((await box.exec(["printenv", "HTTPS_PROXY"])).stdout);
	const connect = (host: string) =>
		box.exec(
			`exec 3<>/dev/tcp/127.0.0.1/${port}; printf 'CONNECT ${host}:443 HTTP/1.1\\r\\n\\r\\n' >&3; head -n 1 <&3`,
		);
	expect((await connect("other.invalid")).stdout).toContain("403");
	expect((await connect("listed.invalid")).stdout).toContain("403");
	expect(box.facts.networkAsked).toMatchObject([
		{ host: "other.invalid", reason: "not on the allowlist" },
		{ host: "listed.invalid", reason: "no such name" },
	]);
	expect((await box.exec("exec 3<>/dev/tcp/1.1.1.1/443")).stderr).toContain("unreachable");
});

/** What the proxy answers; what follows is sent once a tunnel stands. */
async function ask(egress: Egress, head: string, body?: string): Promise<string> {
	await using door = await openDoor(egress);
	const socket = net.connect(door.port, "127.0.0.1");
	socket.write(head);
	let text = "";
	let sent = false;
	for await (const chunk of socket) {
		text += chunk;
		if (body !== undefined && !sent && text.includes("\r\n\r\n")) socket.write(body);
		sent = true;
	}
	return text;
}

async function openDoor(egress: Egress): Promise<AsyncDisposable & { port: number }> {
	const server = net.createServer({ allowHalfOpen: true }, (connection) => egress.accept(connection));
	await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
	const { port } = server.address() as net.AddressInfo;
	return { port, [Symbol.asyncDispose]: async () => void server.close() };
}
