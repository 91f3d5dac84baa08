import { LogTail } from "../agent/log-tail.ts";
import type { BlobName } from "../model/blob.ts";
import type { EventBody } from "../model/event.ts";
import type { Failure } from "../model/failure.ts";

/** So much of the agent's own events is kept; the transcript has the rest. */
const AGENT_CHARACTERS = 1_000_000;

/**
 * What people read when a rollout went wrong, in three logs: how its box was made and the task put into it, what went
 * through the gateway, what the agent told. Written from the events, so an early failure leaves them too.
 */
export class RolloutLogs {
	readonly #install = new LogTail();
	readonly #gateway = new LogTail();
	readonly #agentEvents = new LogTail(AGENT_CHARACTERS);
	readonly #agent = new LogTail();
	#isAgentsTurn = false;

	note(event: EventBody, at: number): void {
		if (event.type === "phase-start") this.#isAgentsTurn ||= event.phase === "agent";
		if (event.type === "agent-event") {
			const { name: type, properties } = event;
			this.#agentEvents.add(`${JSON.stringify({ at, type, properties })}\n`);
		}
		const installed = installLine(event);
		if (installed !== null) this.#installed(at, installed);
		const relayed = gatewayLine(event);
		if (relayed !== null) line(this.#gateway, at, relayed);
	}

	/** What the agent's program wrote to its standard error. */
	agentSaid(text: string): void {
		if (text !== "") this.#agent.add(text);
	}

	/** Goes where whoever looks for the reason looks first. */
	failed({ boundary, code, message }: Failure): void {
		const text = `failed: ${boundary}/${code}: ${message}`;
		if (boundary === "gateway" || boundary === "provider") line(this.#gateway, Date.now(), text);
		else if (this.#isAgentsTurn) this.#agent.add(`${text}\n`);
		else this.#installed(Date.now(), text);
	}

	/** The agent's own events, one JSON object on each line; of very many the last. */
	get agentEvents(): string {
		const text = this.#agentEvents.tail(AGENT_CHARACTERS);
		return text.startsWith("{") ? text : text.slice(text.indexOf("\n") + 1);
	}

	all(): [BlobName, string][] {
		return [
			["install.log", this.#install.tail(64_000)],
			["gateway.log", this.#gateway.tail(64_000)],
			["agent.log", `${this.#agentEvents.tail(64_000)}${this.#agent.tail(64_000)}`],
		];
	}

	/** Once the agent works, the story goes on elsewhere. */
	#installed(at: number, text: string): void {
		if (!this.#isAgentsTurn) line(this.#install, at, text);
	}
}

function installLine(event: EventBody): string | null {
	if (event.type === "phase-start") return `phase ${event.phase}`;
	if (event.type === "sandbox-open")
		return `${event.warm ? "warm" : "new"} ${event.backend} box ${event.sandboxId} is open`;
	if (event.type === "setup-start") return `setup ${event.step}/${event.of}: ${event.cmd}`;
	if (event.type === "note") return event.text;
	if (event.type !== "setup-end") return null;
	const { exitCode, durationS, stdout, stderr } = event.result;
	return `${`${stdout}${stderr}`.trimEnd()}\n[exit code ${exitCode} after ${durationS} s]`;
}

function gatewayLine(event: EventBody): string | null {
	if (event.type === "call-start") return `call ${event.index} (${event.purpose}) begins`;
	if (event.type === "agent-end") return `the agent has ended: ${event.outcome}`;
	if (event.type !== "call-end") return null;
	const { index, finishReason, promptTokens, completionTokens, latencyMs, error } = event.call;
	const end = error === null ? `ends: ${finishReason}` : `fails: ${error.code}: ${error.message}`;
	return `call ${index} ${end}, ${promptTokens} + ${completionTokens} tokens, ${Math.round(latencyMs)} ms`;
}

function line(log: LogTail, at: number, text: string): void {
	log.add(`${new Date(at).toISOString().slice(11, 23)} ${text.trimEnd()}\n`);
}
