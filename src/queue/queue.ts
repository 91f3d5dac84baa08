import type { Kind } from "../model/id.ts";

/** How many of each kind a worker can still take. Each kind has its own: what sits idle in one keeps nothing of the other waiting. */
export type Room = Record<Kind, number>;

/** A unit of work handed to a worker. The handler must be idempotent: a job can start twice. */
export interface Job {
	rolloutId: string;
	/** Fires when the job was taken away: drain, lost heartbeat, shutdown. */
	signal: AbortSignal;
	/** Fires when the worker begins to drain: what can go on elsewhere unharmed need not wait for its grace to pass. */
	draining?: AbortSignal | undefined;
}

export interface WorkerInfo {
	id: string;
	host: string;
	pid: number;
	/** Rollouts at once, and how many run. */
	capacity: number;
	running: number;
	/** Conversations at once, and how many are open. */
	maxConversations: number;
	conversations: number;
	draining: boolean;
	startedAt: number;
	seenAt: number;
}

/** What a worker says of itself. */
export type WorkerState = Omit<WorkerInfo, "host" | "pid" | "seenAt">;

export type JobEnd = "done" | "retry";

/** Who runs what and when, on one machine or many. */
export interface Queue extends AsyncDisposable {
	/** Called after the store has the rollouts; safe to repeat. */
	enqueue(jobs: { rolloutId: string; priority: number }[]): Promise<void>;
	/** Starts taking work. Rollouts whose worker vanished come back by themselves. */
	work(options: WorkOptions): Promise<Worker>;
	/** Removes what waits; what runs is the store's and the worker's to stop. */
	cancel(rolloutIds: string[]): Promise<void>;
	depth(): Promise<number>;
	workers(): Promise<WorkerInfo[]>;
	/** Of these: what no living process runs or has waiting; nothing where whoever works next goes on with it anyway. */
	leftBehind(rolloutIds: readonly string[]): Promise<string[]>;
}

export interface WorkOptions {
	workerId: string;
	/** Rollouts at a time. */
	capacity: number;
	/** Conversations at a time, beside them; none unless given. */
	conversations?: number | undefined;
	handle: (job: Job) => Promise<JobEnd>;
}

export interface Worker extends AsyncDisposable {
	/** Rollouts and conversations. */
	readonly running: number;
	/** Takes nothing new; resolves when what runs has ended, or hands it back after `graceMs`. */
	drain(graceMs: number): Promise<void>;
}
