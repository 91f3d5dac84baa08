import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { MAX_MESSAGE_BYTES } from "../tools/body.ts";
import { RpcSocket } from "./rpc-socket.ts";
import { EnvironmentSocket, type SocketDoor } from "./socket.ts";

export interface WebSocketOptions {
	pingEveryMs?: number;
	/** A trainer with a blocked loop answers no pings; one that is silent for so long has gone. */
	silenceMs?: number;
}

/** OpenEnv's two sockets. Dispose to hang up on everyone. */
export interface WebSockets extends AsyncDisposable {
	/** Takes over a connection whose caller may pass; false when the path is not ours. */
	onUpgrade(request: IncomingMessage, stream: Duplex, head: Buffer): boolean;
}

const KINDS = new Map<string, typeof EnvironmentSocket | typeof RpcSocket>([
	["/ws", EnvironmentSocket],
	["/mcp", RpcSocket],
]);

export function openWebSockets(door: SocketDoor, options: WebSocketOptions = {}): WebSockets {
	const sockets = new WebSocketServer({
		noServer: true,
		maxPayload: MAX_MESSAGE_BYTES,
		perMessageDeflate: false,
	});
	const holders = new Set<EnvironmentSocket | RpcSocket>();
	return {
		onUpgrade(request, stream, head) {
			const url = URL.parse(request.url ?? "", `http://${request.headers.host ?? "localhost"}`);
			const Kind = KINDS.get(url?.pathname ?? "");
			if (url === null || Kind === undefined) return false;
			sockets.handleUpgrade(request, stream, head, (socket) => {
				const holder = new Kind(socket, door, {
					origin: url.origin,
					sessionId: url.searchParams.get("session_id"),
				});
				holders.add(holder);
				socket.once("close", () => void holder.settled().then(() => holders.delete(holder)));
				keepAlive(socket, request, options, door);
			});
			return true;
		},
		async [Symbol.asyncDispose]() {
			for (const socket of sockets.clients) socket.close(1001, "the server is closing");
			const cut = setTimeout(() => {
				for (const socket of sockets.clients) socket.terminate();
			}, 1_000);
			await new Promise((resolve) => sockets.close(resolve));
			clearTimeout(cut);
			await Promise.all([...holders].map((holder) => holder.settled()));
		},
	};
}

/** Notices peers that vanished without a word: the kernel's probes where it can see them, pings through proxies. */
function keepAlive(
	socket: WebSocket,
	request: IncomingMessage,
	options: WebSocketOptions,
	door: SocketDoor,
): void {
	const silenceMs = options.silenceMs ?? 600_000;
	let heardAt = Date.now();
	const hear = () => {
		heardAt = Date.now();
	};
	request.socket.setKeepAlive(true, 15_000);
	const timer = setInterval(() => {
		if (Date.now() - heardAt > silenceMs) socket.terminate();
		else socket.ping();
	}, options.pingEveryMs ?? 20_000);
	for (const sign of ["pong", "ping", "message"]) socket.on(sign, hear);
	socket.on("error", (error) => door.log?.info({ err: error }, "a socket broke"));
	socket.once("close", () => clearInterval(timer));
}
