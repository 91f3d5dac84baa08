import type { AgentMessage } from "./agent/agent.ts";
import type { Config } from "./config.ts";
import type { ModelCall } from "./model/call.ts";
import type { RolloutEvent } from "./model/event.ts";
import type { RolloutRequest } from "./model/request.ts";
import type { RolloutResult } from "./model/result.ts";
import type { Batch, Group, Rollout } from "./model/rollout.ts";
import type { Queue, Worker, WorkerInfo } from "./queue/queue.ts";
import type { Availability, SandboxProvider } from "./sandbox/sandbox.ts";
import type { RolloutCommand, Store } from "./store/store.ts";

/**
 * The verbs. Every door (command line, HTTP, MCP, OpenEnv) translates, calls one of these, and translates back.
 * Bad input throws UsageError; an unknown id gives null.
 */
export interface Paddock extends AsyncDisposable {
	readonly config: Config;
	readonly store: Store;
	readonly queue: Queue;

	/** Validated, stored and queued when it resolves. n > 1, or `group: true`, makes a group. */
	submit(
		request: RolloutRequest,
		options?: { n?: number; group?: boolean; idempotencyKey?: string },
	): Promise<{ rollouts: Rollout[]; group: Group | null }>;
	/** Tasks × endpoints × n, already multiplied out into requests; each request becomes one group of n. */
	submitBatch(
		requests: RolloutRequest[],
		options: { n: number; labels?: Record<string, string>; idempotencyKey?: string },
	): Promise<{ batch: Batch; rollouts: Rollout[] }>;

	/** Every event after `after`, live, until the end event or the signal. */
	follow(id: string, options?: { after?: number; signal?: AbortSignal }): AsyncIterable<RolloutEvent>;
	/** The rollout once it is done, or as it is when time is up. */
	wait(id: string, options: { timeoutMs: number; signal?: AbortSignal }): Promise<Rollout | null>;
	/** The wire result; for an unfinished rollout the same shape with `error` saying so. */
	result(id: string): Promise<RolloutResult | null>;
	messages(
		id: string,
	): Promise<{ sessionId: string | null; messages: AgentMessage[]; note: string | null } | null>;
	calls(id: string): AsyncIterable<ModelCall>;
	abort(target: { id: string } | { groupId: string } | { batchId: string }): Promise<string[]>;
	command(id: string, command: RolloutCommand): Promise<boolean>;

	/** Starts taking work on this machine. */
	work(options?: { capacity?: number }): Promise<Worker>;
	workers(): Promise<WorkerInfo[]>;
	/** What the catalog knows, never a key. */
	endpoints(): {
		name: string;
		configured: boolean;
		baseUrl: string | null;
		model: string | null;
		note: string;
	}[];
	sandboxes(): Promise<Record<string, Availability>>;
	provider(backend: string): SandboxProvider;
}
