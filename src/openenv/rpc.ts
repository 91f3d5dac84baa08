import { LATEST_PROTOCOL_VERSION } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";
import { SERVER_INFO, toListedTool } from "../tools/listed-tool.ts";
import type { Toolbox } from "../tools/toolbox.ts";
import { type Environment, toEnvelope } from "./environment.ts";
import type { CallOptions } from "./openenv.ts";
import { CapacityError, type EnvironmentPool } from "./pool.ts";

const RpcRequest = z.strictObject({
	jsonrpc: z.literal("2.0"),
	method: z.string(),
	params: z.record(z.string(), z.unknown()).default({}),
	id: z.union([z.string(), z.number(), z.null()]).optional(),
});
type RpcRequest = z.infer<typeof RpcRequest>;
type RpcId = string | number | null;

export type RpcReply = { jsonrpc: "2.0"; id: RpcId } & (
	| { result: unknown }
	| { error: { code: number; message: string; data: unknown } }
);

/** Who asks: over a socket its own environment, over HTTP none. */
export interface RpcCaller extends CallOptions {
	own: Environment | null;
}

class RpcFailure extends Error {
	readonly code: number;
	readonly data: unknown;

	constructor(code: number, message: string, data: unknown = null) {
		super(message);
		this.code = code;
		this.data = data;
	}
}

/** OpenEnv's bare JSON-RPC: its session methods, and enough of MCP for plain callers. */
export class Rpc {
	readonly #tools: Toolbox;
	readonly #pool: EnvironmentPool;

	constructor(tools: Toolbox, pool: EnvironmentPool) {
		this.#tools = tools;
		this.#pool = pool;
	}

	/** Null: a notification, which has no answer. Rejects only when the caller gave up. */
	async answer(value: unknown, caller: RpcCaller): Promise<RpcReply | null> {
		const parsed = RpcRequest.safeParse(value);
		if (!parsed.success) return invalidRequest(parsed.error);
		const request = parsed.data;
		if (request.method.startsWith("notifications/")) return null;
		const id = request.id ?? null;
		try {
			return { jsonrpc: "2.0", id, result: await this.#dispatch(request, caller) };
		} catch (error) {
			if (error instanceof RpcFailure) return rpcError(id, error.code, error.message, error.data);
			if (!(error instanceof CapacityError)) throw error;
			const { active_sessions, max_sessions } = error;
			return rpcError(id, -32000, error.message, { active_sessions, max_sessions });
		}
	}

	async #dispatch({ method, params }: RpcRequest, caller: RpcCaller): Promise<unknown> {
		switch (method) {
			case "initialize":
				return {
					protocolVersion: LATEST_PROTOCOL_VERSION,
					capabilities: { tools: {} },
					serverInfo: SERVER_INFO,
				};
			case "ping":
				return {};
			case "openenv/session/create":
				return { session_id: (caller.own ?? this.#pool.open()).id };
			case "openenv/session/close":
				return this.#closeSession(params, caller);
			case "tools/list":
				this.#environmentOf(params, caller);
				return { tools: [...this.#tools.values()].map(toListedTool) };
			case "tools/call":
				return this.#callTool(params, caller);
			default:
				throw new RpcFailure(-32601, `Method not found: ${method.slice(0, 100)}`);
		}
	}

	#closeSession(params: Record<string, unknown>, caller: RpcCaller): unknown {
		const id = params.session_id;
		if (typeof id !== "string") throw new RpcFailure(-32602, "Missing 'session_id' in params");
		if (id === caller.own?.id)
			throw new RpcFailure(-32600, "A socket's own session ends with the socket; close that");
		if (!this.#pool.close(id)) throw new RpcFailure(-32602, `Unknown session_id: ${id.slice(0, 100)}`);
		return { session_id: id, closed: true };
	}

	async #callTool(params: Record<string, unknown>, caller: RpcCaller): Promise<unknown> {
		const { name } = params;
		if (typeof name !== "string") throw new RpcFailure(-32602, "Missing 'name' in params");
		const answer = await this.#environmentOf(params, caller).call(name, params.arguments, caller);
		if ("error" in answer)
			throw new RpcFailure(-32603, answer.error.message, { error_type: answer.error.error_type });
		return toEnvelope(answer.text);
	}

	#environmentOf(params: Record<string, unknown>, caller: RpcCaller): Environment {
		const { session_id: id } = params;
		if (id === undefined || id === null) return caller.own ?? this.#pool.throwAway();
		const environment = typeof id === "string" ? this.#pool.get(id) : undefined;
		if (environment === undefined)
			throw new RpcFailure(-32602, `Unknown session_id: ${String(id).slice(0, 100)}`);
		return environment;
	}
}

export function parseError(): RpcReply {
	return rpcError(null, -32700, "Parse error");
}

export function rpcError(id: RpcId, code: number, message: string, data: unknown = null): RpcReply {
	return { jsonrpc: "2.0", id, error: { code, message, data } };
}

function invalidRequest(error: z.ZodError): RpcReply {
	const issue = error.issues[0];
	const where = issue?.code === "unrecognized_keys" ? issue.keys.join(", ") : issue?.path.join(".");
	return rpcError(null, -32600, `Invalid request: ${where}: ${issue?.message ?? "not JSON-RPC 2.0"}`);
}
