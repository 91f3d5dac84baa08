import type { Outcome } from "../model/failure.ts";
import type { AgentOptions } from "../model/request.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";

/** What an agent reports while it works. */
export interface AgentListener {
	onSession(sessionId: string): void;
	/** OpenCode's own events, without text deltas. */
	onEvent(name: string, properties: Record<string, unknown>): void;
	onPermission(ask: { requestId: string; permission: string; patterns: string[] }): void;
	onQuestion(ask: { requestId: string; questions: unknown[] }): void;
}

export interface AgentEnd {
	outcome: Outcome;
	exitCode: number | null;
	/** What the agent itself said went wrong. The tap knows better when a provider is to blame. */
	error: { code: string; message: string } | null;
}

/** OpenCode's own message shape. */
export interface AgentMessage {
	info: Record<string, unknown>;
	parts: Record<string, unknown>[];
}

/** One prompt being worked on. */
export interface AgentRun extends AsyncDisposable {
	readonly sessionId: string | null;
	/** Resolves when the agent stopped by itself, or when `signal` fired and it was aborted. Never throws for what the agent did. */
	wait(signal: AbortSignal): Promise<AgentEnd>;
	messages(): Promise<AgentMessage[]>;
	/** Says something more to a working agent. */
	send(text: string): Promise<void>;
	answerPermission(
		requestId: string,
		reply: "once" | "always" | "reject",
		message?: string,
	): Promise<boolean>;
	answerQuestion(requestId: string, answers: string[][] | null): Promise<boolean>;
}

/** A booted program that waits for its first prompt. */
export interface BootedAgent extends AsyncDisposable {
	/** Pays first-use costs ahead of time, all the more in `directory`. The gateway must be priming this box. */
	prime(directory: string): Promise<void>;
	/** Does all of `begin` that needs no instruction, for a prompt in this directory. */
	openAhead(directory: string): Promise<void>;
	/** Rejects unless the agent could begin now. */
	ping(): Promise<void>;
	begin(prompt: { directory: string; instruction: string }, listener: AgentListener): Promise<AgentRun>;
	logTail(): Promise<string>;
}

export interface Agent {
	readonly name: string;
	readonly version: string;
	/** Starts the program in the box, pointed at the box's gateway with `key`. */
	boot(box: Sandbox, options: AgentOptions, key: string, signal: AbortSignal): Promise<BootedAgent>;
}
