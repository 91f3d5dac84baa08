import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Dispatcher } from "undici";
import type { Failure } from "../../model/failure.ts";
import { codeForAgent } from "../call-ending.ts";
import type { EngineBook } from "../engines/engines.ts";
import type { GatewayLimits } from "../limits.ts";
import type { GatewayLog } from "../log.ts";
import { wantedTokens } from "../patch.ts";
import type { Protocol } from "../protocols/protocol.ts";
import { COMMON_PROTOCOL, protocolAt } from "../protocols/protocols.ts";
import { type AgentRequest, guessPrompt, relay } from "../relay.ts";
import type { RolloutTap } from "../tap.ts";
import type { Reservation } from "../token-budget.ts";
import { Turns } from "../turns.ts";
import type { ServedWeights } from "../weights.ts";
import { admit } from "./admit.ts";
import { type Body, readBody } from "./body.ts";
import { BodyMemory } from "./body-memory.ts";
import { JsonParser } from "./json-parser.ts";
import { type KeyHolder, type KeyRing, keyOf } from "./keys.ts";
import { answerPriming } from "./prime.ts";
import { originOf } from "./purpose.ts";
import { Refusal } from "./refusal.ts";
import { AgentReply } from "./reply.ts";
import { RequestLedger } from "./request-ledger.ts";
import type { SparingLog } from "./sparing-log.ts";

export interface HandlerParts {
	keys: KeyRing;
	engines: EngineBook;
	weights: ServedWeights;
	dispatcher: Dispatcher;
	limits: GatewayLimits;
	log: GatewayLog;
	complaints: SparingLog;
	boxOf: (socket: Duplex) => string | null;
}

/** Who is it, what do they want, may they: then the relay takes over. */
export class Handler implements AsyncDisposable {
	readonly #parts: HandlerParts;
	readonly #memory: BodyMemory;
	readonly #parser: JsonParser;
	readonly #turns = new Turns();

	constructor(parts: HandlerParts) {
		this.#parts = parts;
		this.#memory = new BodyMemory(parts.limits);
		this.#parser = new JsonParser(parts.limits);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#parser[Symbol.asyncDispose]();
	}

	async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
		try {
			await this.#route(request, response);
		} catch (error) {
			if (error instanceof Refusal) {
				this.#refuse(request, response, error);
				return;
			}
			// Only a bug gets here; it must not take the other rollouts down with it.
			this.#parts.log.error({ err: error }, "a request failed inside the gateway");
			response.destroy();
		}
	}

	async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
		const path = pathOf(request);
		if (path === "/healthz") return sendJson(response, 200, { status: "ok" });
		const holder = this.#whoIs(request);
		if (path === "/v1/models" && request.method === "GET") return sendJson(response, 200, modelsOf(holder));
		const protocol = protocolAt(path);
		if (!protocol) throw new Refusal(404, "not_found", `There is nothing at ${path}.`);
		if (request.method !== "POST")
			throw new Refusal(405, "method_not_allowed", "Only POST is answered here.");
		const { limits } = this.#parts;
		using body = await readBody(request, holder, { memory: this.#memory, parser: this.#parser, limits });
		const read = toAgentRequest(request, protocol, body);
		if (holder.type === "prime") return answerPriming(read, response);
		await this.#converse(read, response, holder.tap);
	}

	#whoIs(request: IncomingMessage): KeyHolder {
		const key = keyOf(request.headers);
		if (key === null) throw new Refusal(401, "invalid_api_key", "The request carries no key.");
		const holder = this.#parts.keys.find(key, this.#parts.boxOf(request.socket));
		if (!holder)
			throw new Refusal(401, "invalid_api_key", "The request carries a key that is not good here.");
		return holder;
	}

	async #converse(read: AgentRequest, response: ServerResponse, tap: RolloutTap): Promise<void> {
		if (tap.isRevoked) throw new Refusal(401, "invalid_api_key", "The key was revoked.");
		this.#refuseIfEnded(read, tap);
		const { dispatcher, limits, log, engines, weights } = this.#parts;
		if (tap.inFlight + tap.budget.waiting >= limits.maxCallsInFlight)
			throw new Refusal(429, "too_many_calls", "Too many calls at once.", { "retry-after": "1" });
		using reservation = await reserve(read, response, tap);
		// It may have waited for others, and they may have used up what there was.
		this.#refuseIfEnded(read, tap);
		if (reservation === null) return void response.destroy();
		using flight = tap.takeOff();
		const reply = new AgentReply(response, () => flight.cut("agent_gone"));
		const engine = await engines.know(tap.options.endpoint);
		const turns = this.#turns;
		const parts = { dispatcher, engines, engine, weights, turns, limits, log };
		await relay(read, reply, tap, flight, reservation, parts);
	}

	#refuseIfEnded(read: AgentRequest, tap: RolloutTap): void {
		const ended = this.#reasonToEnd(read, tap);
		if (ended !== null) throw new Refusal(400, "rollout_ended", `paddock ended this rollout: ${ended}`);
	}

	/** Why no further call may go upstream; the rollout is told so. */
	#reasonToEnd(read: AgentRequest, tap: RolloutTap): string | null {
		const exhausted = tap.stop === null ? tap.exhausted : null;
		if (exhausted !== null) tap.end({ type: "budget", what: exhausted });
		const repeats = tap.ledger.repeats(read.key, read.origin.sessionId);
		if (repeats >= this.#parts.limits.maxRepeats) tap.end({ type: "failure", failure: loopFailure(repeats) });
		if (tap.stop === null) return null;
		return tap.stop.type === "budget"
			? `its budget of ${tap.stop.what} is used up`
			: codeForAgent(tap.stop.failure.code);
	}

	#refuse(request: IncomingMessage, response: ServerResponse, refusal: Refusal): void {
		const { status, code, message } = refusal;
		this.#parts.complaints.warn(this.#parts.boxOf(request.socket), { status, code }, "a request was refused");
		const protocol = protocolAt(pathOf(request)) ?? COMMON_PROTOCOL;
		const body = protocol.toErrorBody({ status, type: ERROR_TYPES[status] ?? code, code, message });
		// What is left of an unread body must not be taken for the next request.
		const close = request.complete ? {} : { connection: "close" };
		sendJson(response, status, body, { ...refusal.headers, ...close });
	}
}

/** Null when the budget is used up, the agent hung up or the key was revoked while it waited for others to settle. */
async function reserve(
	read: AgentRequest,
	response: ServerResponse,
	tap: RolloutTap,
): Promise<Reservation | null> {
	const hangUp = new AbortController();
	response.once("close", () => hangUp.abort());
	const completionTokens = wantedTokens(read.body, tap.options.sampling);
	const signal = AbortSignal.any([hangUp.signal, tap.revoked]);
	return await tap.budget.reserve({ promptTokens: guessPrompt(read), completionTokens }, signal);
}

function toAgentRequest(
	request: IncomingMessage,
	protocol: Protocol,
	{ json, bytes, digest }: Body,
): AgentRequest {
	const { headers } = request;
	const { body, leftOut } = admit(json, protocol);
	const origin = originOf(headers, body, protocol);
	return { key: RequestLedger.keyOf(origin, digest), protocol, headers, origin, bytes, body, leftOut };
}

function pathOf(request: IncomingMessage): string {
	const path = (request.url ?? "/").split("?", 1)[0]!;
	// Not by a pattern: that takes the square of their number when a box sends thousands of slashes.
	let end = path.length;
	while (end > 1 && path[end - 1] === "/") end -= 1;
	return path.slice(0, end);
}

function loopFailure(repeats: number): Failure {
	const message = `the agent sent the same request ${repeats + 1} times in a row although each was answered`;
	return { boundary: "agent", code: "request_loop", message, retryable: false };
}

/** A 400 of ours carries its own code as type: agents read "invalid request" as a prompt to be shortened. */
const ERROR_TYPES: Record<number, string> = { 401: "authentication_error", 429: "rate_limit_error" };

/** The one model there is, unless the agent has a choice. */
function modelsOf(holder: KeyHolder): object {
	const ids =
		holder.type === "tap" ? (holder.tap.options.models ?? [holder.tap.options.endpoint.model]) : ["primed"];
	return {
		object: "list",
		data: ids.map((id) => ({ id, object: "model", created: 0, owned_by: "paddock" })),
	};
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
