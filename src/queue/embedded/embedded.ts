import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { Kind } from "../../model/id.ts";
import type { Store } from "../../store/store.ts";
import type { Queue, Room, Worker, WorkerInfo, WorkOptions } from "../queue.ts";
import { eachUnfinished } from "../reconcile.ts";
import { type Claim, type ClaimEnd, isFull, TakingWorker } from "../taking-worker.ts";
import { JobTable, type Owner } from "./job-table.ts";
import { isAlive, ownIdentity } from "./process-identity.ts";

/** A process that enqueues and does not work leaves its jobs to others after this. */
const SHARE_AFTER_MS = 3_000;
const HEARTBEAT_MS = 5_000;
const RECONCILE_MS = 5_000;
/** No job waits longer for its time to come. */
const LONGEST_WAIT_MS = 60_000;

export interface EmbeddedQueueOptions {
	home: string;
	/** Unfinished rollouts found here come back after a restart. */
	store: Pick<Store, "list" | "counts">;
	/**
	 * Whether to take over what dead processes left and what others only enqueued; true unless given. A command that
	 * runs its own few rollouts and goes says false: a server takes over, now or later.
	 */
	adopt?: boolean;
	/** How often to look for work that other processes left. */
	pollMs?: number;
	/** The first wait after a job came back; doubles each time, up to a minute. */
	retryDelayMs?: number;
	/** A handler threw: its job comes back all the same. Unless given, the process warns. */
	onError?: (error: unknown, rolloutId: string | null) => void;
}

/** The queue of one machine: claims in a small file, so that several processes on one home each run their own. */
export async function openEmbeddedQueue(options: EmbeddedQueueOptions): Promise<Queue> {
	return new EmbeddedQueue(options);
}

class EmbeddedQueue implements Queue {
	readonly #table: JobTable;
	readonly #store: EmbeddedQueueOptions["store"];
	readonly #key = randomBytes(9).toString("base64url");
	readonly #identity = ownIdentity();
	readonly #adopts: boolean;
	readonly #pollMs: number;
	readonly #retryDelayMs: number;
	readonly #onError: (error: unknown, rolloutId: string | null) => void;
	readonly #workers = new Set<TakingWorker<Claim>>();
	readonly #heartbeat: NodeJS.Timeout;
	#poll: NodeJS.Timeout | null = null;
	#ready: NodeJS.Timeout | null = null;
	#reconciling: Promise<void> | null = null;
	#reconciledAt = 0;
	#closed = false;

	constructor(options: EmbeddedQueueOptions) {
		this.#table = new JobTable(join(options.home, "queue.db"));
		this.#store = options.store;
		this.#adopts = options.adopt ?? true;
		this.#pollMs = options.pollMs ?? 1_000;
		this.#retryDelayMs = options.retryDelayMs ?? 1_000;
		this.#onError = options.onError ?? ((error) => process.emitWarning(String(error), "HandlerWarning"));
		this.#table.announce(this.#key, this.#identity, Date.now());
		this.#heartbeat = setInterval(() => this.#careful(() => this.#beat()), HEARTBEAT_MS).unref();
	}

	async enqueue(jobs: { rolloutId: string; priority: number }[]): Promise<void> {
		const now = Date.now();
		this.#table.transact(() => {
			for (const { rolloutId, priority } of jobs) this.#table.add(rolloutId, priority, this.#key, now);
		});
		this.#fill();
	}

	async work(options: WorkOptions): Promise<Worker> {
		const worker: TakingWorker<Claim> = new TakingWorker(options, {
			take: async (room) => this.#take(room),
			ended: async (claim, end) => this.#ended(claim.rolloutId, end),
			changed: () => this.#table.saveWorker(this.#key, worker.state),
			left: async () => this.#left(worker),
			threw: this.#onError,
		});
		this.#workers.add(worker);
		this.#table.saveWorker(this.#key, worker.state);
		if (this.#adopts) {
			this.#adopt();
			await this.#reconcile();
			this.#poll ??= setInterval(() => this.#careful(() => this.#lookAround()), this.#pollMs);
		}
		this.#fill();
		return worker;
	}

	async cancel(rolloutIds: string[]): Promise<void> {
		this.#table.transact(() => {
			for (const rolloutId of rolloutIds) this.#table.removeWaiting(rolloutId);
		});
	}

	async depth(): Promise<number> {
		return this.#table.counts().waiting;
	}

	async workers(): Promise<WorkerInfo[]> {
		return this.#living().flatMap((owner) => this.#table.workersOf(owner));
	}

	async leftBehind(rolloutIds: readonly string[]): Promise<string[]> {
		if (rolloutIds.length === 0) return [];
		const held = new Set(this.#living().flatMap(({ key }) => this.#table.heldBy(key)));
		return rolloutIds.filter((id) => !held.has(id));
	}

	async [Symbol.asyncDispose](): Promise<void> {
		if (this.#closed) return;
		this.#closed = true;
		await Promise.all([...this.#workers].map((worker) => worker.drain(0)));
		await this.#reconciling?.catch((error: unknown) => this.#onError(error, null));
		clearInterval(this.#heartbeat);
		this.#stopLooking();
		this.#table.transact(() => this.#table.release(this.#key));
		this.#table[Symbol.dispose]();
	}

	#living(): Owner[] {
		return this.#table.owners().filter((owner) => isAlive(owner, owner.seenAt));
	}

	#fill(): void {
		for (const worker of this.#workers) void worker.fill();
		this.#wakeWhenReady();
	}

	#take(room: Room): Claim[] {
		return [...this.#takeOf("conversation", room.conversation), ...this.#takeOf("rollout", room.rollout)];
	}

	#takeOf(kind: Kind, atMost: number): Claim[] {
		const claims: Claim[] = [];
		while (claims.length < atMost) {
			const rolloutId = this.#table.take(kind, this.#key, this.#adopts, Date.now());
			if (rolloutId === null) break;
			claims.push({ rolloutId });
		}
		return claims;
	}

	#ended(rolloutId: string, end: ClaimEnd): void {
		const now = Date.now();
		this.#table.transact(() => {
			if (end === "done") this.#table.complete(rolloutId, this.#key);
			else if (end === "handedBack") this.#table.putBack(rolloutId, this.#key, null, now);
			else this.#table.putBack(rolloutId, this.#key, this.#key, now + this.#backoffMs(rolloutId));
		});
		this.#wakeWhenReady();
	}

	#backoffMs(rolloutId: string): number {
		const doublings = Math.max(0, Math.min(this.#table.tries(rolloutId) - 1, 16));
		return Math.min(this.#retryDelayMs * 2 ** doublings, LONGEST_WAIT_MS);
	}

	#wakeWhenReady(): void {
		if (this.#ready) clearTimeout(this.#ready);
		this.#ready = null;
		if (this.#closed || this.#workers.size === 0) return;
		const now = Date.now();
		const at = this.#table.nextReadyAt(this.#key, this.#adopts, now);
		if (at === null) return;
		this.#ready = setTimeout(() => this.#careful(() => this.#fill()), Math.min(at - now + 1, 60_000));
	}

	#lookAround(): void {
		if ([...this.#workers].every((worker) => isFull(worker.room))) return;
		this.#adopt();
		if (Date.now() - this.#reconciledAt > RECONCILE_MS) {
			this.#reconcile().then(
				() => this.#careful(() => !this.#closed && this.#fill()),
				(error: unknown) => this.#onError(error, null),
			);
		}
		this.#fill();
	}

	/** A full disk or a locked file must not end the process from within a timer: the next time may be better. */
	#careful(act: () => void): void {
		try {
			act();
		} catch (error) {
			this.#onError(error, null);
		}
	}

	/** Work of processes that died, or that do not work, becomes anybody's. */
	#adopt(): void {
		const now = Date.now();
		this.#table.hasten(now, now + LONGEST_WAIT_MS);
		const others = this.#table.owners().filter((owner) => owner.key !== this.#key);
		const dead = others.filter((owner) => !isAlive(owner, owner.seenAt, now));
		const idle = others.filter((owner) => !owner.works && !dead.includes(owner));
		if (dead.length + idle.length === 0) return;
		this.#table.transact(() => {
			for (const owner of dead) this.#table.release(owner.key);
			for (const owner of idle) this.#table.share(owner.key, now - SHARE_AFTER_MS);
		});
	}

	/** Every unfinished rollout has a job, even if its process died between storing and enqueuing it. */
	#reconcile(): Promise<void> {
		this.#reconciling ??= this.#addMissing().finally(() => {
			this.#reconciling = null;
			this.#reconciledAt = Date.now();
		});
		return this.#reconciling;
	}

	async #addMissing(): Promise<void> {
		const unfinished = await this.#store.counts();
		const first = this.#reconciledAt === 0;
		if (!first && this.#table.counts().total >= unfinished.queued + unfinished.running) return;
		await eachUnfinished(this.#store, (rollouts) => {
			const now = Date.now();
			this.#table.transact(() => {
				for (const { rolloutId, priority } of rollouts) this.#table.add(rolloutId, priority, null, now);
			});
		});
	}

	#beat(): void {
		const now = Date.now();
		this.#table.announce(this.#key, this.#identity, now);
		for (const worker of this.#workers) {
			for (const { rolloutId } of worker.claims()) {
				if (!this.#table.isRunning(rolloutId, this.#key)) worker.lose(rolloutId);
			}
		}
	}

	#left(worker: TakingWorker<Claim>): void {
		this.#workers.delete(worker);
		this.#table.removeWorker(this.#key, worker.id);
		if (this.#workers.size === 0) this.#stopLooking();
	}

	#stopLooking(): void {
		if (this.#poll) clearInterval(this.#poll);
		if (this.#ready) clearTimeout(this.#ready);
		this.#poll = null;
		this.#ready = null;
	}
}
