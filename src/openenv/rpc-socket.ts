import type { RawData, WebSocket } from "ws";
import { MESSAGE_LIMITS, parseMeasured } from "../model/measured-json.ts";
import type { Environment } from "./environment.ts";
import { CapacityError } from "./pool.ts";
import { parseError, type RpcReply, rpcError } from "./rpc.ts";
import { sendJson, toBytes } from "./send.ts";
import type { Peer, SocketDoor } from "./socket.ts";

/** Of one client at once; each holds its arguments until it is answered. */
const MAX_CALLS = 256;

/** One client on WS /mcp: raw JSON-RPC, whose ids allow several calls at once. */
export class RpcSocket {
	readonly #socket: WebSocket;
	readonly #door: SocketDoor;
	readonly #origin: string;
	readonly #closed = new AbortController();
	readonly #calls = new Set<Promise<unknown>>();
	#environment: Environment | null = null;

	constructor(socket: WebSocket, door: SocketDoor, peer: Peer) {
		this.#socket = socket;
		this.#door = door;
		this.#origin = peer.origin;
		socket.on("message", (data, isBinary) => this.#onMessage(data, isBinary));
		socket.on("close", () => {
			this.#closed.abort();
			if (this.#environment !== null) door.pool.close(this.#environment.id);
		});
	}

	async settled(): Promise<void> {
		await Promise.allSettled(this.#calls);
	}

	#onMessage(data: RawData, isBinary: boolean): void {
		try {
			this.#environment ??= this.#door.pool.open(() => this.#socket.close(1000, "idle for too long"));
		} catch (error) {
			if (!(error instanceof CapacityError)) throw error;
			const { active_sessions, max_sessions } = error;
			this.#send(rpcError(null, -32000, error.message, { active_sessions, max_sessions }));
			this.#socket.close(1000);
			return;
		}
		const isBusy = this.#calls.size >= MAX_CALLS;
		const call = this.#answer(isBinary ? Buffer.alloc(0) : toBytes(data), this.#environment, isBusy);
		this.#calls.add(call);
		void call.then(() => this.#calls.delete(call));
	}

	async #answer(bytes: Buffer, own: Environment, isBusy: boolean): Promise<void> {
		try {
			const message = parseMeasured(bytes, MESSAGE_LIMITS);
			if (message.type === "too-much")
				return this.#send(rpcError(null, -32600, `the message is ${message.of}`));
			// Batches are not understood.
			if (message.type === "no-json" || Array.isArray(message.value)) return this.#send(parseError());
			const { value } = message;
			if (isBusy) return this.#send(rpcError(idOf(value), -32000, `More than ${MAX_CALLS} calls at once`));
			const reply = await this.#door.rpc.answer(value, {
				own,
				signal: this.#closed.signal,
				origin: this.#origin,
			});
			if (reply !== null) this.#send(reply);
		} catch (error) {
			if (!this.#closed.signal.aborted) {
				this.#door.log?.error({ err: error }, "bug in a JSON-RPC call");
				this.#send(rpcError(null, -32603, "this is a bug on our side; the server's log has it"));
			}
		}
	}

	#send(reply: RpcReply): void {
		sendJson(this.#socket, reply);
	}
}

function idOf(value: unknown): string | number | null {
	const id = typeof value === "object" && value !== null && "id" in value ? value.id : null;
	return typeof id === "string" || typeof id === "number" ? id : null;
}
