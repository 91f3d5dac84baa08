import type { Job, JobEnd, Worker } from "./queue.ts";

/** Where an embedded worker gets its work from and brings it back to. */
export interface WorkSource {
	take(): string | null;
	/** `back`: not finished; `handedBack`: because the worker goes, so anybody may have it at once. */
	ended(rolloutId: string, end: "done" | "back" | "handedBack"): void;
	/** Called whenever `running` or `draining` changed. */
	changed(worker: EmbeddedWorker): void;
	left(worker: EmbeddedWorker): void;
	threw(error: unknown, rolloutId: string): void;
}

/** After this a handler that ignores its signal is left to itself; the store's attempts fence it off. */
const UNWIND_MS = 45_000;

export class EmbeddedWorker implements Worker {
	readonly id: string;
	readonly capacity: number;
	readonly startedAt = Date.now();
	readonly #handle: (job: Job) => Promise<JobEnd>;
	readonly #source: WorkSource;
	readonly #running = new Map<string, { controller: AbortController; ended: Promise<void> }>();
	#drained: Promise<void> | null = null;

	constructor(
		options: { workerId: string; capacity: number; handle: (job: Job) => Promise<JobEnd> },
		source: WorkSource,
	) {
		this.id = options.workerId;
		this.capacity = options.capacity;
		this.#handle = options.handle;
		this.#source = source;
	}

	get running(): number {
		return this.#running.size;
	}

	get draining(): boolean {
		return this.#drained !== null;
	}

	runningIds(): string[] {
		return [...this.#running.keys()];
	}

	/** Takes as much as it may. */
	fill(): void {
		while (!this.draining && this.running < this.capacity) {
			const rolloutId = this.#source.take();
			if (rolloutId === null) return;
			this.#start(rolloutId);
		}
	}

	/** The job is somebody else's now. */
	lose(rolloutId: string): void {
		this.#running.get(rolloutId)?.controller.abort();
	}

	drain(graceMs: number): Promise<void> {
		this.#drained ??= this.#drain(graceMs);
		return this.#drained;
	}

	[Symbol.asyncDispose](): Promise<void> {
		return this.drain(0);
	}

	#start(rolloutId: string): void {
		const controller = new AbortController();
		const ended = this.#run({ rolloutId, signal: controller.signal }).then((end) => {
			if (this.#running.get(rolloutId)?.controller !== controller) return;
			this.#running.delete(rolloutId);
			if (end === "done") this.#source.ended(rolloutId, "done");
			else this.#source.ended(rolloutId, controller.signal.aborted ? "handedBack" : "back");
			this.#source.changed(this);
			this.fill();
		});
		this.#running.set(rolloutId, { controller, ended });
		this.#source.changed(this);
	}

	/** Whatever a handler throws, the job comes back: only "done" removes it. */
	async #run(job: Job): Promise<JobEnd> {
		try {
			return await this.#handle(job);
		} catch (error) {
			this.#source.threw(error, job.rolloutId);
			return "retry";
		}
	}

	async #drain(graceMs: number): Promise<void> {
		this.#source.changed(this);
		await settledWithin(this.#ends(), graceMs);
		for (const { controller } of this.#running.values()) controller.abort();
		await settledWithin(this.#ends(), UNWIND_MS);
		for (const rolloutId of this.runningIds()) {
			this.#running.delete(rolloutId);
			this.#source.ended(rolloutId, "handedBack");
		}
		this.#source.left(this);
	}

	#ends(): Promise<void>[] {
		return [...this.#running.values()].map(({ ended }) => ended);
	}
}

async function settledWithin(promises: Promise<void>[], timeoutMs: number): Promise<void> {
	if (promises.length === 0 || timeoutMs <= 0) return;
	let timer: NodeJS.Timeout | undefined;
	const timeUp = new Promise<void>((resolve) => {
		timer = setTimeout(resolve, timeoutMs);
	});
	await Promise.race([Promise.allSettled(promises), timeUp]);
	clearTimeout(timer);
}
