import { messageOf } from "../errors.ts";
import type { Failure } from "../model/failure.ts";
import type { AgentReply } from "./agent-side/reply.ts";
import type { CallEnding } from "./capture.ts";
import type { GatewayLog } from "./log.ts";
import type { Protocol } from "./protocols/protocol.ts";
import type { CutError, Flight } from "./tap.ts";
import type { UpstreamFault } from "./upstream/fault.ts";

/** How a call ended, and what the agent is to see of that once it is recorded. */
export interface Ending extends CallEnding {
	deliver: () => void;
	/** The rollout ends with this. */
	stop?: Failure;
}

const REVOKED = { code: "revoked", message: "the rollout's key was revoked" };
export const AGENT_GONE = {
	code: "agent_disconnected",
	message: "the agent hung up before the answer was complete",
};

export function cutEnding(flight: Flight, reply: AgentReply): Ending {
	const { why } = flight.signal.reason as CutError;
	return { complete: false, error: why === "revoked" ? REVOKED : AGENT_GONE, deliver: () => reply.destroy() };
}

/** The rollout ends, its call is recorded, and the others go on. */
export function bugEnding(protocol: Protocol, reply: AgentReply, error: unknown, log: GatewayLog): Ending {
	log.error({ err: error }, "a call failed inside the gateway");
	const code = "unclassified";
	const message = messageOf(error);
	const failure: Failure = { boundary: "gateway", code, message, retryable: false };
	return {
		complete: false,
		error: { code, message },
		deliver: () => giveUp(protocol, reply, failure),
		stop: failure,
	};
}

/** The prompt does not fit: said in the words that make an agent shorten it. */
export function passOn(protocol: Protocol, reply: AgentReply, fault: UpstreamFault): void {
	const code = "context_length_exceeded";
	const error = { status: 400, type: "invalid_request_error", code, message: fault.message };
	if (reply.isStarted) reply.destroy();
	else reply.sendJson(400, protocol.toErrorBody(error));
}

/** A 400 in words that no agent mistakes for something to retry or to shorten. */
export function giveUp(protocol: Protocol, reply: AgentReply, failure: Failure): void {
	const code = codeForAgent(failure.code);
	const message = `paddock ended this rollout: ${code}`;
	if (reply.isStarted) reply.destroy();
	else reply.sendJson(400, protocol.toErrorBody({ status: 400, type: "rollout_ended", code, message }));
}

/** Failure codes as the agent may read them: a word about the context would make it compact and try again. */
export function codeForAgent(code: string): string {
	return code === "context_overflow" ? "prompt_too_large" : code;
}
