import type { IncomingMessage, Server } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import { MAX_MESSAGE_BYTES } from "../mcp/body.ts";
import { RpcSocket } from "./rpc-socket.ts";
import { EnvironmentSocket, type SocketDoor } from "./socket.ts";

export interface WebSocketOptions {
	/** Null when the caller may pass. */
	access?: (request: IncomingMessage) => { status: number; detail: string } | null;
	pingEveryMs?: number;
	/** A trainer with a blocked loop answers no pings; one that is silent for so long has gone. */
	silenceMs?: number;
}

const KINDS = { "/ws": EnvironmentSocket, "/mcp": RpcSocket };

/** Puts OpenEnv's two sockets, /ws and /mcp, on an HTTP server. Dispose to hang up on everyone. */
export function attachWebSockets(
	server: Server,
	door: SocketDoor,
	options: WebSocketOptions = {},
): AsyncDisposable {
	const sockets = new WebSocketServer({
		noServer: true,
		maxPayload: MAX_MESSAGE_BYTES,
		perMessageDeflate: false,
		clientTracking: true,
	});
	const holders = new Set<EnvironmentSocket | RpcSocket>();
	const onUpgrade = (request: IncomingMessage, stream: Duplex, head: Buffer) => {
		const path = URL.parse(request.url ?? "", "http://localhost")?.pathname;
		const Kind = path === "/ws" || path === "/mcp" ? KINDS[path] : undefined;
		if (Kind === undefined) {
			if (server.listenerCount("upgrade") === 1) refuse(stream, 404, "nothing to upgrade to here");
			return;
		}
		const refusal = options.access?.(request) ?? null;
		if (refusal !== null) return refuse(stream, refusal.status, refusal.detail);
		sockets.handleUpgrade(request, stream, head, (socket) => {
			const holder = new Kind(socket, door, `http://${request.headers.host ?? "localhost"}`);
			holders.add(holder);
			socket.once("close", () => void holder.settled().then(() => holders.delete(holder)));
			keepAlive(socket, request, options, door);
		});
	};
	server.on("upgrade", onUpgrade);
	return {
		async [Symbol.asyncDispose]() {
			server.off("upgrade", onUpgrade);
			for (const socket of sockets.clients) socket.terminate();
			sockets.close();
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
	}, options.pingEveryMs ?? 20_000).unref();
	socket.on("pong", hear);
	socket.on("ping", hear);
	socket.on("message", hear);
	socket.on("error", (error) => door.log?.info({ err: error }, "a socket broke"));
	socket.once("close", () => clearInterval(timer));
}

function refuse(stream: Duplex, status: number, detail: string): void {
	const reasons: Record<number, string> = { 401: "Unauthorized", 403: "Forbidden", 404: "Not Found" };
	const challenge = status === 401 ? 'WWW-Authenticate: Basic realm="paddock", Bearer\r\n' : "";
	stream.end(
		`HTTP/1.1 ${status} ${reasons[status] ?? "Refused"}\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: ${Buffer.byteLength(detail)}\r\n${challenge}\r\n${detail}`,
	);
}
