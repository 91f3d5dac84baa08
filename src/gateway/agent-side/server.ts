import { createServer, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server as TcpServer } from "node:net";
import type { Duplex } from "node:stream";
import { Agent } from "undici";
import { EngineBook } from "../engines/engines.ts";
import type { Gateway, Tap, TapOptions } from "../gateway.ts";
import { DEFAULT_LIMITS, type GatewayLimits } from "../limits.ts";
import { type GatewayLog, silent } from "../log.ts";
import { RolloutTap } from "../tap.ts";
import { lookupOpen } from "../upstream/addresses.ts";
import { ServedWeights } from "../weights.ts";
import { Handler } from "./handler.ts";
import { type KeyHolder, KeyRing } from "./keys.ts";
import { SparingLog } from "./sparing-log.ts";

export interface GatewayOptions {
	log?: GatewayLog;
	limits?: Partial<GatewayLimits>;
	/** What trainers say of their endpoints' weights. */
	weights?: ServedWeights;
}

/** Opens the gateway. It has no port of its own: connections are handed to it, or it listens when asked to. */
export async function openGateway(options: GatewayOptions = {}): Promise<Gateway> {
	const { log = silent, weights = new ServedWeights() } = options;
	return new HttpGateway({ ...DEFAULT_LIMITS, ...options.limits }, log, weights);
}

const MAX_TCP_CONNECTIONS = 4096;

class HttpGateway implements Gateway {
	readonly #limits: GatewayLimits;
	readonly #complaints: SparingLog;
	readonly #keys = new KeyRing();
	readonly #taps = new Set<RolloutTap>();
	readonly #connections = new Map<Duplex, string | null>();
	/** How many of them each box has. */
	readonly #counts = new Map<string | null, number>();
	readonly #listeners: TcpServer[] = [];
	readonly #dispatcher: Agent;
	readonly #engines: EngineBook;
	readonly #handler: Handler;
	readonly #server: Server;

	constructor(limits: GatewayLimits, log: GatewayLog, weights: ServedWeights) {
		this.#limits = limits;
		this.#complaints = new SparingLog(log);
		this.#dispatcher = new Agent({
			connect: { timeout: limits.connectMs, lookup: lookupOpen },
			keepAliveTimeout: 30_000,
			pipelining: 1,
			// A hostile endpoint cannot fill our memory with headers.
			maxHeaderSize: 64 * 1024,
		});
		this.#engines = new EngineBook(this.#dispatcher);
		this.#handler = new Handler({
			keys: this.#keys,
			engines: this.#engines,
			weights,
			dispatcher: this.#dispatcher,
			limits,
			log,
			complaints: this.#complaints,
			boxOf: (socket) => this.#connections.get(socket) ?? null,
		});
		this.#server = createServer({ connectionsCheckingInterval: Math.min(2000, limits.clientHeadersMs) });
		this.#server.headersTimeout = limits.clientHeadersMs;
		// The body has its own clock in the handler; answers may take as long as they take.
		this.#server.requestTimeout = 0;
		// Tools may run for minutes between two calls; the connection dies with its box anyway.
		this.#server.keepAliveTimeout = 600_000;
		this.#server.on("request", (request, response) => void this.#handler.handle(request, response));
		this.#server.on("clientError", (error: Error & { code?: string }, socket) =>
			this.#turnAway(error, socket),
		);
		// Node starts its clocks for slow clients when a server begins to listen. This one is handed its connections.
		this.#server.emit("listening");
	}

	accept(connection: Duplex, boxId: string): void {
		this.#accept(connection, boxId);
	}

	async listen(host: string, port: number): Promise<string> {
		const listener = createTcpServer({ noDelay: true }, (socket) => this.#accept(socket, null));
		listener.maxConnections = MAX_TCP_CONNECTIONS;
		await new Promise<void>((resolve, reject) => {
			listener.once("error", reject);
			listener.listen(port, host, resolve);
		});
		this.#listeners.push(listener);
		const address = listener.address() as AddressInfo;
		return `http://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}/v1`;
	}

	openTap(options: TapOptions): Tap {
		const tap: RolloutTap = new RolloutTap(options, () => {
			this.#keys.remove(tap.key, holder);
			this.#taps.delete(tap);
		});
		const holder: KeyHolder = { type: "tap", tap };
		this.#keys.add(tap.key, holder);
		this.#taps.add(tap);
		// Found out while the agent boots, so that the first call need not wait.
		void this.#engines.know(options.endpoint);
		if (options.sink) void this.#engines.logprobsMode(options.endpoint, options.sampling);
		return tap;
	}

	prime(boxId: string, key: string): Disposable {
		const holder: KeyHolder = { type: "prime", boxId };
		this.#keys.add(key, holder);
		return { [Symbol.dispose]: () => this.#keys.remove(key, holder) };
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await Promise.all([...this.#taps].map((tap) => tap.revoke()));
		for (const listener of this.#listeners) listener.close();
		for (const connection of this.#connections.keys()) connection.destroy();
		this.#server.close();
		await this.#handler[Symbol.asyncDispose]();
		await this.#dispatcher.destroy();
	}

	/** Somebody does not speak HTTP, or too slowly. */
	#turnAway(error: Error & { code?: string }, socket: Duplex): void {
		const boxId = this.#connections.get(socket) ?? null;
		this.#complaints.warn(boxId, { code: error.code }, "a connection was cut off");
		if (!socket.writable) return;
		const status = error.code === "ERR_HTTP_REQUEST_TIMEOUT" ? "408 Request Timeout" : "400 Bad Request";
		socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\n\r\n`, () => socket.destroy());
	}

	#accept(connection: Duplex, boxId: string | null): void {
		const siblings = this.#counts.get(boxId) ?? 0;
		if (boxId !== null && siblings >= this.#limits.maxConnectionsPerBox) {
			this.#complaints.warn(boxId, {}, "a box holds too many connections; the newest is refused");
			connection.destroy();
			return;
		}
		this.#connections.set(connection, boxId);
		this.#counts.set(boxId, siblings + 1);
		connection.once("close", () => this.#forget(connection, boxId));
		connection.on("error", () => connection.destroy());
		this.#server.emit("connection", connection);
	}

	#forget(connection: Duplex, boxId: string | null): void {
		this.#connections.delete(connection);
		const left = (this.#counts.get(boxId) ?? 1) - 1;
		if (left > 0) this.#counts.set(boxId, left);
		else this.#counts.delete(boxId);
	}
}
