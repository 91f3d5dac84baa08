import { lookup } from "node:dns/promises";
import http from "node:http";
import net, { BlockList } from "node:net";
import { networkInterfaces } from "node:os";
import type { Duplex } from "node:stream";
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
	/** Name → addresses. */
	resolve?: (host: string) => Promise<string[]>;
	dial?: (address: string, port: number) => net.Socket;
}

const MAX_ASKS = 500;
/** Of one box at a time: each costs the host two descriptors. */
const MAX_CONNECTIONS = 256;
const DIAL_TIMEOUT_MS = 15_000;
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
	#connections = 0;

	constructor(options: EgressOptions) {
		this.#options = options;
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
		outside.once("connect", () => {
			socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
			if (head.length > 0) outside.write(head);
			socket.pipe(outside);
			outside.pipe(socket);
		});
		outside.on("error", () => socket.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n"));
		outside.on("close", () => socket.destroy());
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
		const bad = addresses.find((address) => !isPublic(address));
		if (bad !== undefined) return this.#note(host, port, "not a public address", null);
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
		const found = await lookup(host, { all: true }).catch(() => []);
		return found.map(({ address }) => address);
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

/** Neither this machine, nor its neighbours, nor anything that is not plain unicast. */
export function isPublic(address: string): boolean {
	const family = net.isIP(address);
	if (family === 0 || address.includes("%")) return false;
	if (family === 4) return !RESERVED_V4.check(address, "ipv4") && !isOwn(address);
	const inner = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
	if (inner !== undefined) return isPublic(inner);
	return !RESERVED_V6.check(address, "ipv6") && !isOwn(address);
}

/** One address has many spellings in v6. */
function isOwn(address: string): boolean {
	const family = net.isIPv6(address) ? "ipv6" : "ipv4";
	const own = new BlockList();
	for (const entry of Object.values(networkInterfaces()).flatMap((list) => list ?? []))
		if (entry.family.toLowerCase() === family) own.addAddress(entry.address, family);
	return own.check(address, family);
}

// Two lists, since a list of v6 ranges also matches v4 addresses in their mapped form.
const RESERVED_V4 = blockList("ipv4", [
	...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"],
	...["192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"],
	...["203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"],
]);
// Every range that can carry a v4 address inside is closed with the rest: ::/8, 64:ff9b::/16, 2001::/23, 2002::/16.
const RESERVED_V6 = blockList("ipv6", [
	...["::/8", "64:ff9b::/16", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fc00::/7"],
	...["fe80::/10", "fec0::/10", "ff00::/8"],
]);

function blockList(family: "ipv4" | "ipv6", ranges: string[]): BlockList {
	const list = new BlockList();
	for (const range of ranges) {
		const [address = "", bits] = range.split("/");
		list.addSubnet(address, Number(bits), family);
	}
	return list;
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
