import type { RawData, WebSocket } from "ws";
import type { Log } from "../log.ts";
import { MESSAGE_LIMITS, parseMeasured } from "../model/measured-json.ts";
import { MAX_MESSAGE_BYTES } from "../tools/body.ts";
import type { Environment } from "./environment.ts";
import { CLIENT_FRAMES, type ClientFrame, parseAction } from "./frames.ts";
import type { ServerFrame } from "./openenv.ts";
import { CapacityError, type EnvironmentPool } from "./pool.ts";
import type { Rpc } from "./rpc.ts";
import { sendJson, toBytes } from "./send.ts";
import { toComplaints } from "./validation.ts";

export interface SocketDoor {
	pool: EnvironmentPool;
	rpc: Rpc;
	log?: Log | undefined;
}

/** Who connected. */
export interface Peer {
	origin: string;
	/** Names a session opened over JSON-RPC, which this socket then shares. */
	sessionId: string | null;
}

type Reply = ServerFrame | "close" | null;

/**
 * One client on /ws. Frames carry no ids: each is answered once, in order. A client that speaks while a long call is
 * under way has given up on it; that call's answer is never sent, since it would be taken for the next one's.
 */
export class EnvironmentSocket {
	readonly #socket: WebSocket;
	readonly #door: SocketDoor;
	readonly #peer: Peer;
	#environment: Environment | null = null;
	#refusal: ServerFrame | null = null;
	#saidGoodbye = false;
	/** Frames not yet answered, in order. */
	readonly #waiting: Buffer[] = [];
	#waitingBytes = 0;
	#isAnswering = false;
	/** The long call under way. */
	#call: AbortController | null = null;
	readonly #abandoned = new Set<Promise<unknown>>();

	constructor(socket: WebSocket, door: SocketDoor, peer: Peer) {
		this.#socket = socket;
		this.#door = door;
		this.#peer = peer;
		this.#takePlace();
		socket.on("message", (data, isBinary) => this.#onMessage(data, isBinary));
		socket.on("close", () => this.#onClose());
	}

	/** Resolves when every rollout that lost its caller has been told to stop. */
	async settled(): Promise<void> {
		await Promise.allSettled(this.#abandoned);
	}

	#takePlace(): void {
		const { sessionId } = this.#peer;
		if (sessionId !== null) {
			this.#environment = this.#door.pool.get(sessionId) ?? null;
			this.#refusal = errorFrame("SESSION_ERROR", `Unknown session_id: ${sessionId.slice(0, 100)}`);
			return;
		}
		try {
			this.#environment = this.#door.pool.open(() => this.#socket.close(1000, "idle for too long"));
		} catch (error) {
			if (!(error instanceof CapacityError)) throw error;
			const { message, active_sessions, max_sessions } = error;
			this.#refusal = errorFrame("CAPACITY_REACHED", message, { active_sessions, max_sessions });
		}
	}

	#onMessage(data: RawData, isBinary: boolean): void {
		if (isBinary) {
			this.#send(errorFrame("SESSION_ERROR", "binary frames are not understood; send JSON text"));
			this.#socket.close(1000);
			return;
		}
		if (this.#call !== null) this.#giveUp(this.#call);
		const bytes = toBytes(data);
		this.#waiting.push(bytes);
		this.#waitingBytes += bytes.length;
		// No long call is under way now: the socket is read again as soon as the short ones are answered.
		if (this.#waitingBytes > MAX_MESSAGE_BYTES) this.#socket.pause();
		void this.#answerAll();
	}

	#giveUp(call: AbortController): void {
		this.#door.log?.info({ session: this.#environment?.id }, "a client gave up on its call");
		this.#call = null;
		call.abort();
	}

	async #answerAll(): Promise<void> {
		if (this.#isAnswering) return;
		this.#isAnswering = true;
		try {
			for (let bytes = this.#next(); bytes !== undefined; bytes = this.#next())
				this.#deliver(await this.#answer(bytes));
		} catch (error) {
			this.#door.log?.error({ err: error }, "bug in an environment");
			this.#deliver(errorFrame("SESSION_ERROR", "this is a bug on our side; the server's log has it"));
			this.#deliver("close");
		} finally {
			this.#isAnswering = false;
		}
	}

	#next(): Buffer | undefined {
		const bytes = this.#waiting.shift();
		this.#waitingBytes -= bytes?.length ?? 0;
		if (this.#socket.isPaused && this.#waiting.length === 0) this.#socket.resume();
		return bytes;
	}

	async #answer(bytes: Buffer): Promise<Reply> {
		// A refusal waits for the first frame: clients read nothing before they have asked something.
		if (this.#environment === null) this.#takePlace();
		if (this.#environment === null) {
			this.#deliver(this.#refusal);
			return "close";
		}
		const frame = parseFrame(bytes);
		if ("refusal" in frame) {
			if (!frame.isFatal) return frame.refusal;
			this.#deliver(frame.refusal);
			return "close";
		}
		return this.#act(frame, this.#environment);
	}

	async #act(frame: ClientFrame, environment: Environment): Promise<Reply> {
		switch (frame.type) {
			case "reset":
				return { type: "observation", data: environment.reset(frame.data) };
			case "state":
				return { type: "state", data: environment.state() };
			case "close":
				this.#saidGoodbye = true;
				return "close";
			case "step":
				return this.#step(frame.data, environment);
			case "mcp":
				return this.#whileWanted(isLongRpc(frame.data, environment), async (signal) => {
					const data = await this.#door.rpc.answer(frame.data, {
						own: environment,
						signal,
						origin: this.#peer.origin,
					});
					return data === null ? null : { type: "mcp", data };
				});
		}
	}

	#step(data: Record<string, unknown>, environment: Environment): Promise<Reply> {
		const parsed = parseAction(data);
		if (!parsed.success)
			return Promise.resolve(
				errorFrame("VALIDATION_ERROR", "Invalid message", { errors: toComplaints(parsed.error) }),
			);
		const action = parsed.data;
		if (action.type === "list_tools")
			return Promise.resolve({ type: "observation", data: environment.listTools() });
		return this.#whileWanted(environment.isLong(action.tool_name), async (signal) => ({
			type: "observation",
			data: await environment.step(action.tool_name, action.arguments, { signal, origin: this.#peer.origin }),
		}));
	}

	/** Runs a call; when the client gives up first, there is no reply, and the next frame need not wait. */
	async #whileWanted(isLong: boolean, run: (signal: AbortSignal) => Promise<Reply>): Promise<Reply> {
		if (isLong && this.#waiting.length > 0) return null;
		const call = new AbortController();
		const gaveUp = new Promise<null>((resolve) =>
			call.signal.addEventListener("abort", () => resolve(null), { once: true }),
		);
		if (isLong) this.#call = call;
		const running = run(call.signal);
		this.#abandoned.add(running);
		const forget = () => this.#abandoned.delete(running);
		running.then(forget, forget);
		try {
			const reply = await Promise.race([running, gaveUp]);
			return call.signal.aborted ? null : reply;
		} finally {
			if (this.#call === call) this.#call = null;
		}
	}

	#deliver(reply: Reply): void {
		if (reply === "close") this.#socket.close(1000);
		else if (reply !== null) this.#send(reply);
	}

	#send(frame: ServerFrame): void {
		sendJson(this.#socket, frame);
	}

	#onClose(): void {
		this.#waiting.length = 0;
		this.#waitingBytes = 0;
		// A shared session is closed over JSON-RPC, unless its holder vanished.
		const isKept = this.#peer.sessionId !== null && this.#saidGoodbye;
		if (this.#environment !== null && !isKept) this.#door.pool.close(this.#environment.id);
		if (this.#call !== null) this.#giveUp(this.#call);
	}
}

type Refusal = { refusal: ServerFrame; isFatal: boolean };

function parseFrame(bytes: Buffer): ClientFrame | Refusal {
	const message = parseMeasured(bytes, MESSAGE_LIMITS);
	if (message.type === "too-much")
		return {
			refusal: errorFrame("VALIDATION_ERROR", `Invalid message: it is ${message.of}`, { errors: [] }),
			isFatal: false,
		};
	if (message.type === "no-json")
		return {
			refusal: errorFrame("INVALID_JSON", `Invalid JSON: ${message.why.slice(0, 200)}`),
			isFatal: false,
		};
	const { value } = message;
	if (typeof value !== "object" || value === null || Array.isArray(value))
		return { refusal: errorFrame("SESSION_ERROR", "a message must be a JSON object"), isFatal: true };
	const type = "type" in value ? String(value.type) : "";
	const schema = Object.hasOwn(CLIENT_FRAMES, type) ? CLIENT_FRAMES[type as ClientFrame["type"]] : undefined;
	if (schema === undefined)
		return {
			refusal: errorFrame("UNKNOWN_TYPE", `Unknown message type: ${type.slice(0, 100)}`),
			isFatal: false,
		};
	const parsed = schema.safeParse(value, { reportInput: true });
	if (parsed.success) return parsed.data;
	const errors = toComplaints(parsed.error);
	return { refusal: errorFrame("VALIDATION_ERROR", "Invalid message", { errors }), isFatal: false };
}

function isLongRpc(data: Record<string, unknown>, environment: Environment): boolean {
	const { method, params } = data;
	if (method !== "tools/call" || typeof params !== "object" || params === null || !("name" in params))
		return false;
	return environment.isLong(String(params.name));
}

function errorFrame(code: string, message: string, extra: Record<string, unknown> = {}): ServerFrame {
	return { type: "error", data: { message, code, ...extra } };
}
