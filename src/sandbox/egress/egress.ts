import { Resolver } from "node:dns/promises";
import http from "node:http";
import net from "node:net";
import { networkInterfaces } from "node:os";
import type { Duplex } from "node:stream";
import { isPublicAddress, type Subnet } from "../../model/addresses.ts";
import type { Network } from "../../model/task.ts";

/** What a box asked the network for, and the answer. */
export interface NetworkAsk {
	host: string;
	port: number;
	allowed: boolean;
	reason: string;
	count: number;
}

export interface EgressOptions {
	network: Exclude<Network, "none">;
	/** Name → addresses; by default the name servers are asked. */
	resolve?: (host: string) => Promise<string[]>;
	/** Instead of this machine's. */
	nameServers?: string[];
	dial?: (address: string, port: number) => net.Socket;
}

const MAX_ASKS = 500;
/** Of one box at a time: each costs the host two descriptors. */
const MAX_CONNECTIONS = 256;
const DIAL_TIMEOUT_MS = 15_000;
const NAME_TIMEOUT_MS = 3_000;
const WEB_PORTS = [80, 443];

/**
 * A box's only way out: a proxy on the host. The name is resolved here, each address is checked, and the connection
 * goes to the address that was checked, so a name that changes its mind cannot lead to the host or its neighbours.
 */
export class Egress implements AsyncDisposable {
	/** Bounded; repeated asks are counted. */
	readonly asked: NetworkAsk[] = [];
	readonly #options: EgressOptions;
	readonly #server: http.Server;
	readonly #sockets = new Set<Duplex>();
	/** Asks the name servers itself: the system's own way takes one of few threads, and all of this process wait for it. */
	readonly #names = new Resolver({ timeout: NAME_TIMEOUT_MS, tries: 2 });
	#connections = 0;

	constructor(options: EgressOptions) {
		this.#options = options;
		if (options.nameServers !== undefined) this.#names.setServers(options.nameServers);
		// Both ends are hostile: whatever one of them makes fail costs it its own connection and nothing else.
		this.#server = http.createServer((request, response) => {
			this.#forward(request, response).catch(() => response.destroy());
		});
		this.#server.on("connect", (request, socket, head) => {
			this.#tunnel(request, socket, head).catch(() => socket.destroy());
		});
		this.#server.on("clientError", (_error, socket) => socket.destroy());
	}

	accept(connection: Duplex): void {
		if (this.#connections >= MAX_CONNECTIONS) {
			connection.destroy();
			return;
		}
		this.#connections += 1;
		connection.once("close", () => {
			this.#connections -= 1;
		});
		this.#keep(connection);
		this.#server.emit("connection", connection);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#names.cancel();
		for (const socket of this.#sockets) socket.destroy();
	}

	/** CONNECT host:port, as for https. */
	async #tunnel(request: http.IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
		const target = parseTarget(request.url ?? "");
		const address = target === null ? null : await this.#admit(target.host, target.port);
		if (target === null || address === null) {
			socket.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
			return;
		}
		const outside = this.#dial(address, target.port);
		const refuse = () => socket.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n");
		outside.once("error", refuse);
		outside.once("connect", () => {
			outside.removeListener("error", refuse);
			socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
			if (head.length > 0) outside.write(head);
			socket.pipe(outside);
			outside.pipe(socket);
			// What it said before it hung up in order may still be on its way to a box that reads slowly.
			outside.once("close", () => {
				if (!outside.readableEnded) socket.destroy();
			});
		});
		socket.on("close", () => outside.destroy());
		socket.on("error", () => outside.destroy());
	}

	/** Plain http with an absolute URL. */
	async #forward(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
		const url = URL.parse(request.url ?? "");
		const port = Number(url?.port || 80);
		const address = url?.protocol === "http:" ? await this.#admit(unbracket(url.hostname), port) : null;
		if (url === null || address === null) {
			response.writeHead(403).end();
			return;
		}
		const outgoing = http.request({
			method: request.method,
			path: `${url.pathname}${url.search}`,
			headers: { ...endToEnd(request.headers), host: url.host },
			createConnection: () => this.#dial(address, port),
		});
		outgoing.on("response", (incoming) => {
			const { statusCode = 0 } = incoming;
			if (statusCode < 200 || statusCode > 999) {
				outgoing.destroy();
				return;
			}
			incoming.on("error", () => response.destroy());
			response.writeHead(statusCode, endToEnd(incoming.headers));
			incoming.pipe(response);
		});
		outgoing.on("error", () => outgoing.destroy());
		outgoing.on("close", () => {
			if (!response.headersSent) response.writeHead(502).end();
		});
		response.on("close", () => outgoing.destroy());
		request.on("error", () => outgoing.destroy());
		request.pipe(outgoing);
	}

	/** The address to connect to, or null; either way the ask is on record. */
	async #admit(host: string, port: number): Promise<string | null> {
		if (!isListed(this.#options.network, host, port))
			return this.#note(host, port, "not on the allowlist", null);
		const addresses = await this.#resolve(host);
		if (addresses.length === 0) return this.#note(host, port, "no such name", null);
		const near = ownSubnets();
		if (!addresses.every((address) => isPublicAddress(address, near)))
			return this.#note(host, port, "not a public address", null);
		return this.#note(host, port, "allowed", addresses[0]!);
	}

	#note(host: string, port: number, reason: string, address: string | null): string | null {
		const known = this.asked.find((ask) => ask.host === host && ask.port === port && ask.reason === reason);
		if (known !== undefined) known.count += 1;
		else if (this.asked.length < MAX_ASKS) {
			this.asked.push({ host: host.slice(0, 255), port, allowed: address !== null, reason, count: 1 });
		}
		return address;
	}

	async #resolve(host: string): Promise<string[]> {
		if (net.isIP(host) !== 0) return [host];
		if (this.#options.resolve !== undefined) return this.#options.resolve(host);
		const [v4, v6] = await Promise.allSettled([this.#names.resolve4(host), this.#names.resolve6(host)]);
		return [v4, v6].flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
	}

	#dial(address: string, port: number): net.Socket {
		const socket = this.#options.dial?.(address, port) ?? net.connect({ host: address, port });
		socket.setTimeout(DIAL_TIMEOUT_MS, () => {
			if (socket.connecting) socket.destroy(new Error("timed out"));
		});
		this.#keep(socket);
		return socket;
	}

	#keep(socket: Duplex): void {
		this.#sockets.add(socket);
		socket.on("error", () => socket.destroy());
		socket.on("close", () => this.#sockets.delete(socket));
	}
}

/** `example.org`, `*.example.org` (any name below it), each with an optional `:port`; without one, web ports only. */
export function isListed(network: Exclude<Network, "none">, host: string, port: number): boolean {
	if (network === "internet") return true;
	const name = host.toLowerCase().replace(/\.$/, "");
	return network.allow.some((rule) => {
		const [, pattern = "", wanted] = /^(.*?)(?::(\d+))?$/.exec(rule.toLowerCase()) ?? [];
		if (wanted === undefined ? !WEB_PORTS.includes(port) : Number(wanted) !== port) return false;
		return pattern.startsWith("*.") ? name.endsWith(pattern.slice(1)) : name === pattern;
	});
}

/** The networks this machine is in, as they are now. */
function ownSubnets(): Subnet[] {
	const interfaces = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
	return interfaces.map(({ address, cidr }) => ({ address, prefix: Number(cidr?.split("/")[1] ?? 128) }));
}

/** What concerns one connection only ends with it; handed on, some of it makes Node throw. */
const HOP_BY_HOP = new Set(
	"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer upgrade".split(
		" ",
	),
);

function endToEnd(headers: http.IncomingHttpHeaders): http.OutgoingHttpHeaders {
	return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name)));
}

function parseTarget(text: string): { host: string; port: number } | null {
	const match = /^(\[[0-9a-fA-F:.]+\]|[^:[\]\s]+):(\d{1,5})$/.exec(text);
	const port = Number(match?.[2]);
	return match === null || port < 1 || port > 65_535 ? null : { host: unbracket(match[1]!), port };
}

function unbracket(host: string): string {
	return host.replace(/^\[(.*)\]$/, "$1");
}
