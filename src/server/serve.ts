import {
	createServer,
	type IncomingMessage,
	type RequestListener,
	type Server,
	type ServerOptions,
} from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { createAdaptorServer } from "@hono/node-server";
import type { OpenAPIHono } from "@hono/zod-openapi";
import { UsageError } from "../errors.ts";
import type { Paddock } from "../paddock.ts";
import { type AccessPolicy, checkAccess, requireTokenFor } from "./access.ts";
import { type AppOptions, createApp } from "./app.ts";
import { inTurn } from "./in-turn.ts";

export { createWorkerApp } from "./app.ts";
export { Metrics } from "./metrics.ts";
export { openTelemetry } from "./otlp.ts";

/** Takes over an upgraded connection; false when the path is not its own. */
type OnUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => boolean;

export interface ServeOptions extends Omit<AppOptions, "access" | "closing"> {
	host: string;
	/** 0 picks a free one. */
	port: number;
	/** What is served: everything, unless told otherwise. */
	create?: (paddock: Paddock, options: AppOptions) => OpenAPIHono;
	/** WebSockets. Called only for callers that passed the access check. */
	onUpgrade?: OnUpgrade;
	/** How long a caller may take to send a request; answering may take longer. */
	requestTimeoutMs?: number;
	/** How long requests in flight may still take when the server closes. */
	graceMs?: number;
}

export interface Serving extends AsyncDisposable {
	readonly url: string;
	readonly app: OpenAPIHono;
	readonly server: Server;
}

/** Listens. Disposing it ends streams, lets requests in flight finish, then cuts what is left. */
export async function serve(paddock: Paddock, options: ServeOptions): Promise<Serving> {
	const { host, port, onUpgrade, create = createApp, ...appOptions } = options;
	const { requestTimeoutMs = 120_000, graceMs = 10_000 } = options;
	const { token } = paddock.config;
	requireTokenFor(host, token);
	const access: AccessPolicy = { token };
	const closing = new AbortController();
	const app = create(paddock, { ...appOptions, access, closing: closing.signal });
	const server = createAdaptorServer({
		fetch: app.fetch,
		createServer: ((options: ServerOptions, answer: RequestListener) =>
			createServer(options, inTurn(answer))) as typeof createServer,
		serverOptions: {
			requestTimeout: requestTimeoutMs,
			headersTimeout: Math.min(20_000, requestTimeoutMs),
			connectionsCheckingInterval: Math.min(5_000, requestTimeoutMs),
			keepAliveTimeout: 65_000,
		},
	}) as Server;
	const upgraded = upgrades(server, access, onUpgrade);
	await listen(server, host, port);
	return {
		url: urlOf(host, server),
		app,
		server,
		async [Symbol.asyncDispose]() {
			closing.abort();
			await close(server, upgraded, graceMs);
		},
	};
}

async function listen(server: Server, host: string, port: number): Promise<void> {
	const { promise, resolve, reject } = Promise.withResolvers<void>();
	server.once("error", reject);
	server.listen(port, host, resolve);
	try {
		await promise;
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		if (code === "EADDRINUSE") throw new UsageError(`port ${port} on ${host} is taken`, "port_taken");
		if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND")
			throw new UsageError(`this machine has no address ${host}`, "bad_host");
		throw error;
	} finally {
		server.off("error", reject);
	}
}

/** The only listener for upgrades: no WebSocket opens without the check that requests go through. */
function upgrades(server: Server, access: AccessPolicy, onUpgrade: OnUpgrade | undefined): Set<Duplex> {
	const open = new Set<Duplex>();
	server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
		// A peer that resets its connection is no news.
		socket.on("error", () => socket.destroy());
		const path = (request.url ?? "/").split("?")[0] ?? "/";
		const header = (name: string) => request.headers[name]?.toString();
		const refusal = checkAccess({ method: request.method ?? "GET", path, header }, access);
		if (refusal) return refuse(socket, refusal.status);
		open.add(socket);
		socket.once("close", () => open.delete(socket));
		if (!onUpgrade?.(request, socket, head)) refuse(socket, 404);
	});
	return open;
}

const REASONS = { 401: "Unauthorized", 403: "Forbidden", 404: "Not Found" };

function refuse(socket: Duplex, status: 401 | 403 | 404): void {
	const answer = `HTTP/1.1 ${status} ${REASONS[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`;
	// No clock of the server watches an upgraded connection: whoever was refused must not be able to keep it.
	socket.end(answer, () => socket.destroy());
}

async function close(server: Server, upgraded: Set<Duplex>, graceMs: number): Promise<void> {
	const { promise: closed, resolve } = Promise.withResolvers<void>();
	server.close(() => resolve());
	// A connection whose last answer is out would otherwise wait for another request.
	const idle = setInterval(() => server.closeIdleConnections(), 50);
	const cut = setTimeout(() => {
		server.closeAllConnections();
		for (const socket of upgraded) socket.destroy();
	}, graceMs);
	await closed;
	clearInterval(idle);
	clearTimeout(cut);
}

function urlOf(host: string, server: Server): string {
	const { port } = server.address() as AddressInfo;
	return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
