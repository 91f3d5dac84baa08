import { setTimeout as delay } from "node:timers/promises";
import { type Kind, kindOf } from "../model/id.ts";
import type { Job, JobEnd, Room, Worker, WorkerState, WorkOptions } from "./queue.ts";

/** Work that was taken and must be brought back. */
export interface Claim {
	rolloutId: string;
}

/** How a claim comes back: `handedBack` is for anybody at once, since the worker goes; `back` is tried again later. */
export type ClaimEnd = "done" | "back" | "handedBack";

/** Where a worker gets its work from and brings it back to. */
export interface WorkSource<C extends Claim> {
	take(room: Room): Promise<C[]>;
	ended(claim: C, end: ClaimEnd): Promise<void>;
	/** `running` or `draining` changed. */
	changed(): void;
	left(): Promise<void>;
	/** A handler threw (the job comes back), or the source itself failed (it is asked again). */
	threw(error: unknown, rolloutId: string | null): void;
}

/** After this a handler that ignores its signal is left to itself; the store's attempts fence it off. */
const UNWIND_MS = 45_000;

/** Between tries to bring a job back. */
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 10_000;

interface Running<C> {
	claim: C;
	controller: AbortController;
	ended: Promise<void>;
}

/** Takes as much as it has room for, runs it, brings it back. */
export class TakingWorker<C extends Claim> implements Worker {
	readonly id: string;
	readonly #capacity: Room;
	readonly #startedAt = Date.now();
	readonly #handle: (job: Job) => Promise<JobEnd>;
	readonly #source: WorkSource<C>;
	readonly #running = new Map<string, Running<C>>();
	#filling: Promise<void> | null = null;
	#again = false;
	readonly #leaving = new AbortController();
	#drained: Promise<void> | null = null;
	#isLeaving = false;

	constructor(options: WorkOptions, source: WorkSource<C>) {
		this.id = options.workerId;
		this.#capacity = { rollout: options.capacity, conversation: options.conversations ?? 0 };
		this.#handle = options.handle;
		this.#source = source;
	}

	get running(): number {
		return this.#running.size;
	}

	get room(): Room {
		const left = (kind: Kind) => Math.max(0, this.#capacity[kind] - this.#runningOf(kind));
		return { rollout: left("rollout"), conversation: left("conversation") };
	}

	get state(): WorkerState {
		return {
			id: this.id,
			capacity: this.#capacity.rollout,
			running: this.#runningOf("rollout"),
			maxConversations: this.#capacity.conversation,
			conversations: this.#runningOf("conversation"),
			draining: this.draining,
			startedAt: this.#startedAt,
		};
	}

	get draining(): boolean {
		return this.#drained !== null;
	}

	claims(): C[] {
		return [...this.#running.values()].map(({ claim }) => claim);
	}

	/** There may be work: harmless to repeat. */
	fill(): Promise<void> {
		this.#again = true;
		this.#filling ??= this.#fill();
		return this.#filling;
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

	async #fill(): Promise<void> {
		await Promise.resolve();
		while (this.#again && !this.draining) {
			this.#again = false;
			await this.#takeOnce().catch((error: unknown) => this.#source.threw(error, null));
		}
		// In the same turn as the last look at `#again`, so that no call to fill() falls in between unheard.
		this.#filling = null;
	}

	async #takeOnce(): Promise<void> {
		const { room } = this;
		if (isFull(room)) return;
		const claims = await this.#source.take(room);
		// Each for itself: one that cannot be brought back must not leave the others taken and never started.
		for (const claim of claims) {
			await this.#start(claim).catch((error: unknown) => this.#source.threw(error, claim.rolloutId));
		}
		if (claims.length > 0) this.#announce();
	}

	async #start(claim: C): Promise<void> {
		// What came while draining goes back at once; what still unwinds here from an earlier claim must end first.
		if (this.draining) return this.#source.ended(claim, "handedBack");
		if (this.#running.has(claim.rolloutId)) return this.#source.ended(claim, "back");
		const controller = new AbortController();
		this.#running.set(claim.rolloutId, { claim, controller, ended: this.#run(claim, controller.signal) });
	}

	async #run(claim: C, signal: AbortSignal): Promise<void> {
		const end = await this.#outcome({ rolloutId: claim.rolloutId, signal, draining: this.#leaving.signal });
		if (this.#running.get(claim.rolloutId)?.claim !== claim) return;
		await this.#bringBack(
			claim,
			end === "done" ? "done" : signal.aborted || this.draining ? "handedBack" : "back",
		);
		void this.fill();
	}

	/** Whatever a handler throws, the job comes back: only "done" removes it. */
	async #outcome(job: Job): Promise<JobEnd> {
		try {
			// A turn later, so that even a handler that throws at once finds its claim registered.
			await Promise.resolve();
			return await this.#handle(job);
		} catch (error) {
			this.#source.threw(error, job.rolloutId);
			return "retry";
		}
	}

	/** Until it is brought back it takes its room: whatever keeps the source from hearing would spoil the next job too. */
	async #bringBack(claim: C, end: ClaimEnd): Promise<void> {
		for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
			try {
				await this.#source.ended(claim, end);
				break;
			} catch (error) {
				this.#source.threw(error, claim.rolloutId);
			}
			if (this.#isLeaving) break;
			await delay(waitMs, undefined, { ref: false });
			if (this.#isLeaving) return;
		}
		this.#running.delete(claim.rolloutId);
		this.#announce();
	}

	/** Nobody waits for the end of a claim, so nothing here may throw: unheard, it would end the process. */
	#announce(): void {
		try {
			this.#source.changed();
		} catch (error) {
			this.#source.threw(error, null);
		}
	}

	async #drain(graceMs: number): Promise<void> {
		// `draining` is true from the next turn on; work being taken right now is waited for.
		await this.#filling;
		this.#leaving.abort();
		this.#announce();
		await settledWithin(this.#ends(), graceMs);
		for (const { controller } of this.#running.values()) controller.abort();
		await settledWithin(this.#ends(), UNWIND_MS);
		this.#isLeaving = true;
		await Promise.all(this.claims().map((claim) => this.#bringBack(claim, "handedBack")));
		await this.#source.left();
	}

	#runningOf(kind: Kind): number {
		return [...this.#running.keys()].filter((rolloutId) => kindOf(rolloutId) === kind).length;
	}

	#ends(): Promise<void>[] {
		return [...this.#running.values()].map(({ ended }) => ended);
	}
}

export function isFull({ rollout, conversation }: Room): boolean {
	return rollout === 0 && conversation === 0;
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
