import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { connect as netConnect } from "node:net";
import type { Duplex } from "node:stream";
import { connect as tlsConnect } from "node:tls";
import { messageOf, RolloutError } from "../../errors.ts";
import { toTimerMs } from "../../model/duration.ts";
import type { AgentMessage, MessageIds } from "../agent.ts";

/** The agent may share a box with its server, so no answer is believed to be small. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;
const CALL_LIMIT_MS = 30_000;

/** Where a server answers: a stream out of a box, or an address. */
export interface ServePlace {
	connect(): Promise<Duplex>;
	/** As the server's Host header wants it. */
	host: string;
	/** What stands before every path; empty for a server of its own. */
	basePath: string;
}

export function placeInBox(connect: () => Promise<Duplex>): ServePlace {
	return { connect, host: "localhost", basePath: "" };
}

export function placeAt(url: string): ServePlace {
	const { protocol, hostname, port, pathname, host } = new URL(url);
	const address = {
		host: hostname.replace(/^\[|\]$/g, ""),
		port: Number(port) || (protocol === "https:" ? 443 : 80),
	};
	return {
		connect: async () =>
			protocol === "https:" ? tlsConnect({ ...address, servername: address.host }) : netConnect(address),
		host,
		basePath: pathname.replace(/\/$/, ""),
	};
}

export interface ServeAccess {
	password: string;
	/** Where the agent works, on the machine of the server. */
	directory: string;
}

/** What the server answered: any status is an answer, only silence is an error. */
export interface ServeAnswer {
	status: number;
	/** Undefined when it is not JSON. */
	body: unknown;
	/** The head of what it said, for people; without the password. */
	said: string;
}

/**
 * The few calls of `opencode serve` that we need. OpenCode's own SDK reads answers of any size into memory; here every read is
 * bounded, because the other side may be hostile.
 */
export class ServeClient {
	readonly #agent: HttpAgent;
	readonly #place: ServePlace;
	readonly #headers: Record<string, string>;
	/** As it is, and as it is sent. */
	readonly #secrets: string[];

	constructor(place: ServePlace, access: ServeAccess) {
		this.#place = place;
		this.#agent = new StreamAgent(() => place.connect());
		const login = Buffer.from(`opencode:${access.password}`).toString("base64");
		this.#secrets = [access.password, login];
		this.#headers = {
			host: place.host,
			authorization: `Basic ${login}`,
			"x-opencode-directory": encodeURIComponent(access.directory),
		};
	}

	async health(timeoutMs = 1_000): Promise<{ version: string }> {
		return (await this.#ask("GET", "/global/health", undefined, timeoutMs)) as { version: string };
	}

	/** A title of our own keeps OpenCode from asking the model for one. `directory` is as the server itself spells it. */
	async createSession(title: string | null): Promise<{ id: string; directory: string | null }> {
		const session = (await this.#ask("POST", "/session", title === null ? {} : { title })) as Record<
			string,
			unknown
		>;
		if (!isAgentId(session?.id)) throw new Error("opencode serve made a session without an id");
		return { id: session.id, directory: typeof session.directory === "string" ? session.directory : null };
	}

	/** Null when there is none. */
	async session(id: string): Promise<{ parentId: string | null; directory: string | null } | null> {
		const { status, body, said } = await this.call("GET", `/session/${id}`);
		if (status === 404) return null;
		const { parentID, directory } = accepted(status, body, said, `GET /session/${id}`) as Record<
			string,
			unknown
		>;
		return {
			parentId: isAgentId(parentID) ? parentID : null,
			directory: typeof directory === "string" ? directory : null,
		};
	}

	/** All that the server says of it. */
	async sessionInfo(id: string): Promise<Record<string, unknown>> {
		return (await this.#ask("GET", `/session/${id}`)) as Record<string, unknown>;
	}

	async children(id: string): Promise<string[]> {
		const list = await this.#list(`/session/${id}/children`);
		return list.flatMap((child) => (isAgentId(child.id) ? [child.id] : []));
	}

	async deleteSession(id: string): Promise<void> {
		await this.#ask("DELETE", `/session/${id}`);
	}

	/** Blocks until the turn is over. */
	async promptAndWait(sessionId: string, text: string): Promise<void> {
		await this.#ask("POST", `/session/${sessionId}/message`, { parts: [{ type: "text", text }] }, 60_000);
	}

	prompt(sessionId: string, body: PromptBody, timeoutMs: number, traceId?: string): Promise<ServeAnswer> {
		// Whatever a caller calls it, it is a header.
		const headers = traceId === undefined ? {} : { "x-trace-id": encodeURIComponent(traceId.toWellFormed()) };
		return this.call("POST", `/session/${sessionId}/prompt_async`, body, timeoutMs, headers);
	}

	abort(sessionId: string, timeoutMs: number): Promise<ServeAnswer> {
		return this.call("POST", `/session/${sessionId}/abort`, undefined, timeoutMs);
	}

	async messages(sessionId: string, limit?: number): Promise<AgentMessage[]> {
		const query = limit === undefined ? "" : `?limit=${limit}`;
		const list = await this.#list(`/session/${sessionId}/message${query}`);
		return list.flatMap(({ info, parts }) =>
			isRecord(info) ? [{ info, parts: Array.isArray(parts) ? parts.filter(isRecord) : [] }] : [],
		);
	}

	/** Null when it was never said. */
	async hasMessage(sessionId: string, messageId: string): Promise<boolean> {
		const { status, body, said } = await this.call("GET", `/session/${sessionId}/message/${messageId}`);
		if (status === 404) return false;
		accepted(status, body, said, "looking for a message");
		return true;
	}

	/** An idle session is absent from the map. */
	async statuses(): Promise<Record<string, unknown>> {
		const map = await this.#ask("GET", "/session/status");
		if (!isRecord(map)) throw new Error("opencode serve: GET /session/status answered no map");
		return map;
	}

	/** What waits for an answer, in all sessions of the directory. */
	pendingAsks(kind: "permission" | "question"): Promise<Record<string, unknown>[]> {
		return this.#list(`/${kind}`);
	}

	replyPermission(id: string, reply: "once" | "reject", message?: string): Promise<ServeAnswer> {
		return this.call("POST", `/permission/${id}/reply`, {
			reply,
			message,
		});
	}

	/** Null rejects the question. */
	replyQuestion(id: string, answers: string[][] | null): Promise<ServeAnswer> {
		if (answers === null) return this.call("POST", `/question/${id}/reject`, {});
		return this.call("POST", `/question/${id}/reply`, { answers });
	}

	/** The event stream of all sessions and directories; whoever opens it reads it, bounded. */
	openEvents(signal: AbortSignal): Promise<IncomingMessage> {
		return this.#send("GET", "/global/event", undefined, signal);
	}

	/** The beginning of what the server said, without the password: it may send back what it was sent. */
	headOf(text: string, characters: number): string {
		// Enough to find a secret that the cut would leave a piece of.
		const near = text.slice(0, characters + 1_000);
		return this.#secrets
			.reduce((hidden, secret) => hidden.replaceAll(secret, "[hidden]"), near)
			.slice(0, characters);
	}

	close(): void {
		this.#agent.destroy();
	}

	async call(
		method: string,
		path: string,
		body?: unknown,
		timeoutMs = CALL_LIMIT_MS,
		headers: Record<string, string> = {},
	): Promise<ServeAnswer> {
		const what = `opencode serve: ${method} ${path}`;
		const signal = AbortSignal.timeout(toTimerMs(timeoutMs));
		try {
			const response = await this.#send(method, path, body, signal, headers);
			const text = await readText(response);
			return { status: response.statusCode ?? 0, body: parseJson(text), said: this.headOf(text, 300) };
		} catch (error) {
			if (error instanceof RolloutError) throw error;
			const why = signal.aborted
				? `was not answered within ${timeoutMs / 1000} s`
				: `failed: ${messageOf(error)}`;
			const message = `${what} ${why}`;
			throw new RolloutError("agent", "agent_api_error", message, { retryable: true, cause: error });
		}
	}

	async #ask(method: string, path: string, body?: unknown, timeoutMs?: number): Promise<unknown> {
		const answer = await this.call(method, path, body, timeoutMs);
		return accepted(answer.status, answer.body, answer.said, `${method} ${path}`);
	}

	async #list(path: string): Promise<Record<string, unknown>[]> {
		const list = await this.#ask("GET", path);
		if (!Array.isArray(list)) throw new Error(`opencode serve: GET ${path} answered no list`);
		return list.filter(isRecord);
	}

	#send(
		method: string,
		path: string,
		body: unknown,
		signal: AbortSignal,
		more: Record<string, string> = {},
	): Promise<IncomingMessage> {
		return new Promise((resolve, reject) => {
			const payload = body === undefined ? undefined : JSON.stringify(body);
			const headers: Record<string, string> = { ...this.#headers, ...more };
			if (payload !== undefined) headers["content-type"] = "application/json";
			const request = httpRequest(
				{ agent: this.#agent, method, path: `${this.#place.basePath}${path}`, headers, signal },
				resolve,
			);
			request.on("error", reject);
			request.end(payload);
		});
	}
}

export interface PromptBody {
	messageID: string;
	parts: { id: string; type: "text"; text: string }[];
	model?: { providerID: string; modelID: string } | undefined;
	agent?: string | undefined;
	variant?: string | undefined;
}

export function toPrompt(
	text: string,
	ids: MessageIds,
	options: {
		model?: { providerID: string; modelID: string } | undefined;
		agent?: string | undefined;
		variant?: string | undefined;
	},
): PromptBody {
	return { messageID: ids.messageId, parts: [{ id: ids.partId, type: "text", text }], ...options };
}

/** An http.Agent whose sockets are streams out of a box, or to an address. */
class StreamAgent extends HttpAgent {
	readonly #connect: () => Promise<Duplex>;

	constructor(connect: () => Promise<Duplex>) {
		super({ keepAlive: true });
		this.#connect = connect;
	}

	override createConnection(
		_options: unknown,
		callback?: (error: Error | null, stream: Duplex) => void,
	): undefined {
		this.#connect().then(
			(stream) => {
				callback?.(null, stream);
				stream.resume();
			},
			(error: Error) => callback?.(error, undefined as never),
		);
		return undefined;
	}
}

/** It becomes part of paths and a column of the store, and it comes out of a box. */
export function isAgentId(value: unknown): value is string {
	return typeof value === "string" && /^[A-Za-z0-9_-]{1,100}$/.test(value);
}

export function isRecord(value: unknown): value is Record<string, unknown> {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}

function accepted(status: number, body: unknown, said: string, what: string): unknown {
	if (status >= 200 && status <= 299 && body !== undefined) return body;
	const message = `opencode serve: ${what} answered ${status}: ${said}`;
	if (status === 401 || status === 403) throw new RolloutError("agent", "agent_auth_failed", message);
	throw new RolloutError("agent", "agent_api_error", message, { retryable: status >= 500 });
}

function parseJson(text: string): unknown {
	if (text === "") return null;
	try {
		return JSON.parse(text);
	} catch {
		return undefined; // Whoever needs a body says so.
	}
}

async function readText(response: IncomingMessage): Promise<string> {
	const chunks: Buffer[] = [];
	let size = 0;
	for await (const chunk of response) {
		size += (chunk as Buffer).length;
		if (size > MAX_BODY_BYTES)
			throw new RolloutError("agent", "agent_api_error", "opencode serve sent an answer that is too large");
		chunks.push(chunk as Buffer);
	}
	return Buffer.concat(chunks).toString("utf8");
}
