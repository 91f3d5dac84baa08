import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Dispatcher } from "undici";
import { messageOf } from "../errors.ts";
import { BodyError, parseBody, readBody } from "./body.ts";
import { messages } from "./dialects/anthropic-messages.ts";
import { chat } from "./dialects/openai-chat.ts";
import { responses } from "./dialects/openai-responses.ts";
import type { Protocol } from "./dialects/protocol.ts";
import type { EngineBook } from "./engines.ts";
import { codeForAgent, Ledger } from "./guards.ts";
import { type KeyHolder, type KeyRing, keyOf } from "./keys.ts";
import type { GatewayLimits } from "./limits.ts";
import type { GatewayLog } from "./log.ts";
import { answerPriming } from "./prime.ts";
import { originOf } from "./purpose.ts";
import { type AgentRequest, relay } from "./relay.ts";
import { AgentReply } from "./reply.ts";
import type { RolloutTap } from "./tap.ts";

export interface HandlerParts {
	keys: KeyRing;
	engines: EngineBook;
	dispatcher: Dispatcher;
	limits: GatewayLimits;
	log: GatewayLog;
	boxOf: (socket: Duplex) => string | null;
}

const PROTOCOLS = new Map<string, Protocol>(
	[chat, responses, messages].map((protocol) => [`/v1${protocol.path}`, protocol]),
);

/** Who is it, what do they want, may they: then the relay takes over. */
export class Handler {
	readonly #parts: HandlerParts;

	constructor(parts: HandlerParts) {
		this.#parts = parts;
	}

	async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
		try {
			await this.#route(request, response);
		} catch (error) {
			// Only a bug gets here; it must not take the other rollouts down with it.
			this.#parts.log.error(
				{ error: messageOf(error), stack: (error as Error).stack },
				"a request failed inside the gateway",
			);
			response.destroy();
		}
	}

	async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
		const path = (request.url ?? "/").split("?", 1)[0]!.replace(/(?<=.)\/+$/, "");
		if (path === "/healthz") return sendJson(response, 200, { status: "ok" });
		const protocol = PROTOCOLS.get(path);
		const boxId = this.#parts.boxOf(request.socket);
		const key = keyOf(request.headers);
		const holder = key === null ? null : this.#parts.keys.find(key, boxId);
		if (holder === null) {
			const why = key === null ? "no key" : "a key that is not good here";
			return this.#refuse(
				request,
				response,
				protocol ?? chat,
				401,
				"invalid_api_key",
				`The request carries ${why}.`,
			);
		}
		if (path === "/v1/models" && request.method === "GET") return sendJson(response, 200, modelsOf(holder));
		if (!protocol)
			return this.#refuse(request, response, chat, 404, "not_found", `There is nothing at ${path}.`);
		if (request.method !== "POST")
			return this.#refuse(
				request,
				response,
				protocol,
				405,
				"method_not_allowed",
				"Only POST is answered here.",
			);
		await this.#call(request, response, protocol, holder);
	}

	async #call(
		request: IncomingMessage,
		response: ServerResponse,
		protocol: Protocol,
		holder: KeyHolder,
	): Promise<void> {
		const { limits } = this.#parts;
		let read: AgentRequest;
		try {
			const bytes = await readBody(request, limits.maxBodyBytes, limits.clientBodyMs);
			const body = parseBody(bytes);
			const origin = originOf(request.headers, body);
			read = { key: Ledger.keyOf(origin, bytes), protocol, headers: request.headers, origin, body };
		} catch (error) {
			if (!(error instanceof BodyError)) throw error;
			return this.#refuse(request, response, protocol, error.status, "bad_request", error.message);
		}
		if (holder.type === "prime") return answerPriming(read, response);
		if (holder.tap.isRevoked)
			return this.#refuse(request, response, protocol, 401, "invalid_api_key", "The key was revoked.");
		await this.#converse(read, request, response, holder.tap);
	}

	async #converse(
		read: AgentRequest,
		request: IncomingMessage,
		response: ServerResponse,
		tap: RolloutTap,
	): Promise<void> {
		const { protocol } = read;
		const ended = this.#reasonToEnd(read, tap);
		if (ended !== null)
			return this.#refuse(
				request,
				response,
				protocol,
				400,
				"rollout_ended",
				`paddock ended this rollout: ${ended}`,
			);
		if (tap.inFlight >= this.#parts.limits.maxCallsInFlight)
			return this.#refuse(request, response, protocol, 429, "too_many_calls", "Too many calls at once.", {
				"retry-after": "1",
			});
		using flight = tap.takeOff();
		const reply = new AgentReply(response, () => flight.cut("agent_gone"));
		const engine = await this.#parts.engines.know(tap.options.endpoint);
		const { dispatcher, limits, log } = this.#parts;
		await relay(read, reply, tap, flight, { dispatcher, engine, limits, log });
	}

	/** Why no further call may go upstream; the rollout is told so. */
	#reasonToEnd(read: AgentRequest, tap: RolloutTap): string | null {
		const exhausted = tap.stop === null ? tap.exhausted : null;
		if (exhausted !== null) tap.end({ type: "budget", what: exhausted });
		const repeats = tap.ledger.repeats(read.key, read.origin.sessionId);
		if (repeats >= this.#parts.limits.maxRepeats)
			tap.end({
				type: "failure",
				failure: {
					boundary: "agent",
					code: "request_loop",
					message: `the agent sent the same request ${repeats + 1} times in a row although each was answered`,
					retryable: false,
				},
			});
		if (tap.stop === null) return null;
		return tap.stop.type === "budget"
			? `its budget of ${tap.stop.what} is used up`
			: codeForAgent(tap.stop.failure.code);
	}

	#refuse(
		request: IncomingMessage,
		response: ServerResponse,
		protocol: Protocol,
		status: number,
		code: string,
		message: string,
		headers: Record<string, string> = {},
	): void {
		this.#parts.log.warn({ boxId: this.#parts.boxOf(request.socket), status, code }, "a request was refused");
		const type = ERROR_TYPES[status] ?? code;
		// What is left of an unread body must not be taken for the next request.
		const close = request.complete ? {} : { connection: "close" };
		sendJson(response, status, protocol.toErrorBody({ status, type, code, message }), {
			...headers,
			...close,
		});
		if (!request.complete) response.once("finish", () => request.destroy());
	}
}

/** A 400 of ours carries its own code as type: agents read "invalid request" as a prompt to be shortened. */
const ERROR_TYPES: Record<number, string> = { 401: "authentication_error", 429: "rate_limit_error" };

/** The one model there is; which one, only the gateway knows. */
function modelsOf(holder: KeyHolder): object {
	const id = holder.type === "tap" ? holder.tap.options.endpoint.model : "primed";
	return { object: "list", data: [{ id, object: "model", created: 0, owned_by: "paddock" }] };
}

function sendJson(
	response: ServerResponse,
	status: number,
	body: object,
	headers: Record<string, string> = {},
): void {
	const bytes = Buffer.from(JSON.stringify(body));
	response.writeHead(status, {
		"content-type": "application/json",
		"content-length": bytes.length,
		...headers,
	});
	response.end(bytes);
}
