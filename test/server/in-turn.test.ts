import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { inTurn } from "../../src/server/in-turn.ts";
import { serve } from "../../src/server/serve.ts";
import { openIdlePaddock } from "../fixtures/idle-paddock.ts";

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;

test("requests sent ahead are answered one at a time and in order", async () => {
	let active = 0;
	let most = 0;
	await using server = await listening(async (request, response) => {
		active += 1;
		most = Math.max(most, active);
		await new Promise((resolve) => setImmediate(resolve));
		active -= 1;
		response.end(`<${request.url}>`);
	});
	const socket = server.connect();
	const paths = Array.from({ length: 10 }, (_, at) => `/${at}`);
	socket.write(paths.map(get).join(""));
	let heard = "";
	for await (const chunk of socket) {
		heard += chunk;
		if (heard.includes("</9>")) break;
	}
	expect([...heard.matchAll(/<(.*?)>/g)].map((match) => match[1])).toEqual(paths);
	expect(most).toBe(1);
});

test("whoever sends far more ahead is cut off", async () => {
	await using server = await listening(() => {});
	const socket = server.connect();
	const closed = once(socket.resume(), "close");
	socket.on("error", () => {});
	socket.write(get("/").repeat(50));
	await closed;
});

test("the server answers in turn", async () => {
	await using paddock = await openIdlePaddock();
	await using serving = await serve(paddock, { host: "127.0.0.1", port: 0, graceMs: 0 });
	const socket = connect(Number(new URL(serving.url).port), "127.0.0.1").resume();
	const closed = once(socket, "close");
	socket.on("error", () => {});
	socket.write(get("/api/v1/rollouts").repeat(500));
	await closed;
});

async function listening(answer: RequestListener) {
	const server = createServer(inTurn(answer)).listen(0, "127.0.0.1");
	await once(server, "listening");
	const sockets: Socket[] = [];
	return {
		connect() {
			const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
			sockets.push(socket);
			return socket;
		},
		async [Symbol.asyncDispose]() {
			for (const socket of sockets) socket.destroy();
			server.closeAllConnections();
			server.close();
			await once(server, "close");
		},
	};
}
