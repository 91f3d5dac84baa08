import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { RolloutError } from "../errors.ts";
import { toTimerMs } from "../model/duration.ts";
import type { AgentMessage } from "./agent.ts";

/** The agent shares the box with `serve`, so no answer is believed to be small. */
const MAX_BODY_BYTES = 64 * 1024 * 1024;
const MAX_EVENT_BYTES = 8 * 1024 * 1024;

export interface ServeEvent {
	type: string;
	properties: Record<string, unknown>;
}

/**
 * The few calls of `opencode serve` that we need, over streams that come out of a box. OpenCode's own SDK reads answers of
 * any size into memory; here every read is bounded, because the other side is hostile.
 */
export class ServeClient {
	readonly #agent: HttpAgent;
	readonly #headers: Record<string, string>;

	constructor(connect: () => Promise<Duplex>, options: { password: string; directory: string }) {
		this.#agent = new StreamAgent(connect);
		this.#headers = {
			authorization: `Basic ${Buffer.from(`opencode:${options.password}`).toString("base64")}`,
			"x-opencode-directory": encodeURIComponent(options.directory),
		};
	}

	async health(): Promise<{ version: string }> {
		return (await this.#json("GET", "/global/health", undefined, 1_000)) as { version: string };
	}

	/** A title of our own keeps OpenCode from asking the model for one. */
	async createSession(title: string | null): Promise<string> {
		const session = (await this.#json("POST", "/session", title === null ? {} : { title })) as {
			id?: unknown;
		};
		if (!isSessionId(session.id)) throw new Error("opencode serve made a session without an id");
		return session.id;
	}

	async deleteSession(id: string): Promise<void> {
		await this.#json("DELETE", `/session/${id}`);
	}

	async prompt(sessionId: string, text: string): Promise<void> {
		await this.#json("POST", `/session/${sessionId}/prompt_async`, { parts: [{ type: "text", text }] });
	}

	/** Blocks until the turn is over. */
	async promptAndWait(sessionId: string, text: string): Promise<void> {
		await this.#json("POST", `/session/${sessionId}/message`, { parts: [{ type: "text", text }] }, 60_000);
	}

	async abort(sessionId: string): Promise<void> {
		await this.#json("POST", `/session/${sessionId}/abort`, undefined, 5_000);
	}

	async messages(sessionId: string): Promise<AgentMessage[]> {
		const messages = await this.#json("GET", `/session/${sessionId}/message`);
		return Array.isArray(messages) ? (messages as AgentMessage[]) : [];
	}

	/** An idle session is absent from the map. */
	async busySessions(): Promise<Set<string>> {
		return new Set(Object.keys((await this.#json("GET", "/session/status")) as object));
	}

	async replyPermission(id: string, reply: "once" | "always" | "reject", message?: string): Promise<void> {
		await this.#json("POST", `/permission/${id}/reply`, {
			reply,
			...(message === undefined ? {} : { message }),
		});
	}

	/** Null rejects the question. */
	async replyQuestion(id: string, answers: string[][] | null): Promise<void> {
		if (answers === null) await this.#json("POST", `/question/${id}/reject`, {});
		else await this.#json("POST", `/question/${id}/reply`, { answers });
	}

	/** Calls back for every event until the stream ends. Resolves `ready` once the server has said hello. */
	events(
		onEvent: (event: ServeEvent) => void,
		signal: AbortSignal,
	): { ready: Promise<void>; ended: Promise<void> } {
		const ready = Promise.withResolvers<void>();
		const ended = this.#stream("/event", signal, (event) => {
			if (event.type === "server.connected") ready.resolve();
			onEvent(event);
		});
		// A stream that never said hello was never ready; whoever waits for `ready` learns why.
		ended.then(() => ready.reject(new Error("the event stream of opencode serve ended")), ready.reject);
		ready.promise.catch(() => {});
		return { ready: ready.promise, ended };
	}

	close(): void {
		this.#agent.destroy();
	}

	async #stream(path: string, signal: AbortSignal, onEvent: (event: ServeEvent) => void): Promise<void> {
		const response = await this.#send("GET", path, undefined, { signal });
		if (response.statusCode !== 200)
			throw new Error(`opencode serve: ${path} answered ${response.statusCode}`);
		const decoder = new StringDecoder("utf8");
		let pending = "";
		for await (const chunk of response) {
			pending += decoder.write(chunk as Buffer);
			const frames = pending.split("\n\n");
			pending = frames.pop() ?? "";
			if (pending.length > MAX_EVENT_BYTES) throw new Error("opencode serve sent an event that is too large");
			for (const frame of frames) {
				const event = parseFrame(frame);
				if (event) onEvent(event);
			}
		}
	}

	async #json(method: string, path: string, body?: unknown, timeoutMs = 30_000): Promise<unknown> {
		const what = `opencode serve: ${method} ${path}`;
		const signal = AbortSignal.timeout(toTimerMs(timeoutMs));
		try {
			const response = await this.#send(method, path, body, { signal });
			const text = await readText(response);
			const status = response.statusCode ?? 0;
			if (status >= 200 && status <= 299) return text === "" ? null : JSON.parse(text);
			const message = `${what} answered ${status}: ${text.slice(0, 300)}`;
			throw new RolloutError("agent", "agent_api_error", message);
		} catch (error) {
			if (!signal.aborted) throw error;
			const message = `${what} was not answered within ${timeoutMs / 1000} s`;
			throw new RolloutError("agent", "agent_api_error", message, { retryable: true, cause: error });
		}
	}

	#send(
		method: string,
		path: string,
		body: unknown,
		options: { signal: AbortSignal },
	): Promise<IncomingMessage> {
		return new Promise((resolve, reject) => {
			const payload = body === undefined ? undefined : JSON.stringify(body);
			const headers: Record<string, string> = { ...this.#headers };
			if (payload !== undefined) headers["content-type"] = "application/json";
			const request = httpRequest(
				{ agent: this.#agent, method, path, headers, signal: options.signal },
				resolve,
			);
			request.on("error", reject);
			request.end(payload);
		});
	}
}

/** An http.Agent whose sockets are streams out of a box. */
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
export function isSessionId(value: unknown): value is string {
	return typeof value === "string" && /^[A-Za-z0-9_-]{1,100}$/.test(value);
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

function parseFrame(frame: string): ServeEvent | null {
	const data = frame
		.split("\n")
		.filter((line) => line.startsWith("data:"))
		.map((line) => line.slice(5).trimStart())
		.join("\n");
	if (data === "") return null;
	const event = JSON.parse(data) as Partial<ServeEvent>;
	if (typeof event.type !== "string") return null;
	return { type: event.type, properties: event.properties ?? {} };
}
