import type { ModelCall } from "../model/call.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { Task } from "../model/task.ts";

/** One reply of a scripted model. Without `calls` it ends the agent's turn. */
export interface PolicyStep {
	/** Thinking, sent before everything else. */
	reasoning?: string;
	text?: string;
	/** Several calls in one reply run in parallel. A string is sent as it is, so arguments can be broken on purpose. */
	calls?: { tool: string; args: Record<string, unknown> | string }[];
	/** Waits this long before the first token. */
	delayMs?: number;
}

/** What a scripted model is asked to play. */
export interface Role {
	policy: string;
	task: Task;
	/** For replay: the recorded calls, in order. */
	recorded?: () => AsyncIterable<ModelCall>;
	/** Played by the main session in place of what the policy would do. */
	steps?: readonly PolicyStep[];
	/** Played by every sub-agent; without it a sub-agent answers one sentence. */
	subagentSteps?: readonly PolicyStep[];
}

/** The built-in scripted models, served as a real OpenAI-compatible endpoint on loopback. */
export interface PolicyServer extends AsyncDisposable {
	readonly baseUrl: string;
	readonly names: readonly string[];
	/**
	 * Registers a role; its endpoint answers until it is disposed of. Model name and key are random unless `as`
	 * names them. An unknown policy is a UsageError.
	 */
	cast(role: Role, as?: { model: string; apiKey: string }): Promise<{ endpoint: Endpoint } & Disposable>;
}
