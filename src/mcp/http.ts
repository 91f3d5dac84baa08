import { randomUUID } from "node:crypto";
import type { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { isInitializeRequest } from "@modelcontextprotocol/sdk/types.js";
import type { Env, Hono } from "hono";
import type { Log } from "../log.ts";
import type { Paddock } from "../paddock.ts";
import { type Body, readBody } from "../tools/body.ts";
import { createMcpServer } from "./server.ts";

export interface McpDoorOptions {
	log?: Log | undefined;
	/** What becomes of a rollout whose client closed its session. */
	onDisconnect?: "abort" | "detach";
	maxSessions?: number;
}

/** Everyone who speaks MCP over HTTP. Dispose to end their sessions. */
export interface McpDoor extends AsyncDisposable {
	readonly sessions: number;
	handle(request: Request, body: Body | undefined): Promise<Response>;
}

/** Answers JSON-RPC of callers that are no MCP clients. */
export type BareRpc = (body: Body, request: { signal: AbortSignal; origin: string }) => Promise<Response>;

export function openMcp(paddock: Paddock, options: McpDoorOptions = {}): McpDoor {
	return new McpSessions(paddock, options);
}

/** MCP over streamable HTTP on /mcp, and bare JSON-RPC on the same path. */
export function mountMcp<E extends Env>(app: Hono<E>, door: McpDoor, bareRpc: BareRpc): void {
	app.all("/mcp", async (context) => {
		const request = context.req.raw;
		if (request.method !== "POST") return door.handle(request, undefined);
		const body = await readBody(request);
		if (isMcpClient(request)) return door.handle(request, body);
		return bareRpc(body, { signal: request.signal, origin: new URL(request.url).origin });
	});
}

/** MCP clients must say that they take event streams; the others never do. */
function isMcpClient(request: Request): boolean {
	return (
		request.headers.has("mcp-session-id") ||
		(request.headers.get("accept")?.includes("text/event-stream") ?? false)
	);
}

interface Session {
	transport: WebStandardStreamableHTTPServerTransport;
	server: Server;
	usedAt: number;
}

class McpSessions implements McpDoor {
	readonly #paddock: Paddock;
	readonly #options: McpDoorOptions;
	readonly #sessions = new Map<string, Session>();
	readonly #calls = new Set<Promise<unknown>>();
	#isClosing = false;

	constructor(paddock: Paddock, options: McpDoorOptions) {
		this.#paddock = paddock;
		this.#options = options;
	}

	get sessions(): number {
		return this.#sessions.size;
	}

	async handle(request: Request, body: Body | undefined): Promise<Response> {
		if (body?.type === "too-large") return rpcError(413, -32000, body.message);
		if (body?.type === "unreadable") return rpcError(400, -32700, "Parse error");
		const parsed = body === undefined ? {} : { parsedBody: body.value };
		const id = request.headers.get("mcp-session-id");
		if (id !== null) {
			const session = this.#sessions.get(id);
			if (session === undefined) return rpcError(404, -32001, "Session not found: initialize again");
			session.usedAt = Date.now();
			return session.transport.handleRequest(request, parsed);
		}
		if (body !== undefined && isInitializeRequest(body.value)) return this.#open(request, parsed);
		if (body !== undefined) return this.#answerOnce(request, parsed);
		return rpcError(400, -32000, "Mcp-Session-Id is missing: initialize first");
	}

	async #open(request: Request, parsed: { parsedBody?: unknown }): Promise<Response> {
		await this.#makeRoom();
		let isClosed = false;
		const transport = new WebStandardStreamableHTTPServerTransport({
			sessionIdGenerator: randomUUID,
			onsessioninitialized: (id) => void this.#sessions.set(id, { transport, server, usedAt: Date.now() }),
		});
		// Set before connecting, so that it is known when the calls in flight hear of it.
		transport.onclose = () => {
			isClosed = true;
			if (transport.sessionId !== undefined) this.#sessions.delete(transport.sessionId);
		};
		const server = this.#createServer(request, {
			whenAbandoned: () => (isClosed ? this.#whenGone() : "abort"),
			onCancelled: (requestId) => transport.closeSSEStream(requestId),
		});
		await server.connect(transport);
		return transport.handleRequest(request, parsed);
	}

	/** One question from a client that keeps no session. */
	async #answerOnce(request: Request, parsed: { parsedBody?: unknown }): Promise<Response> {
		const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
		const server = this.#createServer(request, {
			whenAbandoned: () => this.#whenGone(),
		});
		await server.connect(transport);
		const close = () => void server.close();
		request.signal.addEventListener("abort", close, { once: true });
		try {
			return await transport.handleRequest(request, parsed);
		} finally {
			request.signal.removeEventListener("abort", close);
			close();
		}
	}

	#createServer(
		request: Request,
		options: Pick<Parameters<typeof createMcpServer>[1] & object, "whenAbandoned" | "onCancelled">,
	): Server {
		return createMcpServer(this.#paddock, {
			...options,
			log: this.#options.log,
			origin: new URL(request.url).origin,
			onCall: (call) => {
				this.#calls.add(call);
				const forget = () => this.#calls.delete(call);
				call.then(forget, forget);
			},
		});
	}

	/** Clients rarely say goodbye; the session unused for longest makes way. */
	async #makeRoom(): Promise<void> {
		if (this.#sessions.size < (this.#options.maxSessions ?? 1000)) return;
		const [oldest] = [...this.#sessions.values()].sort((a, b) => a.usedAt - b.usedAt);
		await oldest?.server.close();
	}

	/** When it is we who hang up, that is no reason to abort anyone's rollout. */
	#whenGone(): "abort" | "detach" {
		return this.#isClosing ? "detach" : (this.#options.onDisconnect ?? "abort");
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#isClosing = true;
		await Promise.allSettled([...this.#sessions.values()].map(({ server }) => server.close()));
		await Promise.allSettled(this.#calls);
	}
}

function rpcError(status: number, code: number, message: string): Response {
	return Response.json({ jsonrpc: "2.0", id: null, error: { code, message } }, { status });
}
