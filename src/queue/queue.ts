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
	capacity: number;
	running: number;
	draining: boolean;
	startedAt: number;
	seenAt: number;
}

export type JobEnd = "done" | "retry";

/** Who runs what and when, on one machine or many. */
export interface Queue extends AsyncDisposable {
	/** Called after the store has the rollouts; safe to repeat. */
	enqueue(jobs: { rolloutId: string; priority: number }[]): Promise<void>;
	/** Starts taking work, `capacity` at a time. Rollouts whose worker vanished come back by themselves. */
	work(options: {
		workerId: string;
		capacity: number;
		handle: (job: Job) => Promise<JobEnd>;
	}): Promise<Worker>;
	/** Removes what waits; what runs is the store's and the worker's to stop. */
	cancel(rolloutIds: string[]): Promise<void>;
	depth(): Promise<number>;
	workers(): Promise<WorkerInfo[]>;
}

export interface Worker extends AsyncDisposable {
	readonly running: number;
	/** Takes nothing new; resolves when what runs has ended, or hands it back after `graceMs`. */
	drain(graceMs: number): Promise<void>;
}
