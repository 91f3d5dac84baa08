import { PgBoss } from "pg-boss";
import { messageOf, UsageError } from "../../errors.ts";
import { checkSchema } from "../../store/postgres/connection.ts";
import { reaching } from "../../store/postgres/outage.ts";
import type { Store } from "../../store/store.ts";
import type { Queue, Worker, WorkerInfo, WorkOptions } from "../queue.ts";
import { eachUnfinished } from "../reconcile.ts";
import { TakingWorker } from "../taking-worker.ts";
import { BossJobs } from "./jobs.ts";
import { BossSession } from "./session.ts";
import { type BossClaim, BossWorkers } from "./workers.ts";

const BEAT_MS = 4_000;
/** Longer than the database may be away: a worker that could not say anything has not died of it. */
const HEARTBEAT_S = 60;
/** How often a worker looks whether another has died. */
const LOOK_MS = 1_000;
const RECONCILE_MS = 60_000;

export interface BossQueueOptions {
	url: string;
	/** pg-boss keeps its tables in a schema of its own. */
	schema?: string;
	/** Unfinished rollouts found here that have no job, for whatever reason, get one. */
	store: Pick<Store, "list" | "counts">;
	/** How often an idle worker looks for work that it was not told of. */
	pollMs?: number;
	/** The first wait after a job came back, in whole seconds; doubles each time, up to a minute. */
	retryDelayS?: number;
	/** After so many returns a job becomes a dead letter; far above any rollout's attempts, which the handler counts. */
	retryLimit?: number;
	/** A worker that lives but says nothing for so long loses its jobs, in whole seconds; 10 is the least. */
	heartbeatS?: number;
	/** A handler threw, or the database failed: all is tried again. Unless given, the process warns. */
	onError?: (error: unknown, rolloutId: string | null) => void;
}

/** The queue of many machines: pg-boss on PostgreSQL. A worker that falls silent loses its jobs to the others. */
export async function openBossQueue(options: BossQueueOptions): Promise<Queue> {
	const schema = checkSchema(options.schema ?? "paddock_queue");
	const onError = options.onError ?? ((error) => process.emitWarning(messageOf(error), "QueueWarning"));
	const boss = new PgBoss({
		connectionString: options.url,
		schema,
		application_name: "paddock-queue",
		max: 4,
		// Not in its types: it hands them on to its pool of connections.
		...{ query_timeout: 60_000, keepAlive: true },
		// Whoever has a queue open looks for workers that hang: within one heartbeat and two looks their jobs are free.
		superviseIntervalSeconds: 3,
		monitorIntervalSeconds: 3,
		schedule: false,
	});
	boss.on("error", (error) => onError(error, null));
	try {
		await boss.start();
	} catch (cause) {
		const message = `PostgreSQL cannot be reached: ${messageOf(cause)}. Check PADDOCK_DATABASE_URL.`;
		throw Object.assign(new UsageError(message, "database_unreachable"), { cause });
	}
	const session = new BossSession(options.url, schema);
	const jobs = new BossJobs(boss, session, schema, {
		limit: options.retryLimit ?? 50,
		delayS: options.retryDelayS ?? 1,
		heartbeatS: options.heartbeatS ?? HEARTBEAT_S,
	});
	const workers = new BossWorkers(boss, schema);
	await jobs.prepare();
	await workers.prepare();
	await session.prepare(boss.getDb());
	return new BossQueue(boss, session, jobs, workers, { ...options, onError });
}

class BossQueue implements Queue {
	readonly #boss: PgBoss;
	readonly #session: BossSession;
	readonly #jobs: BossJobs;
	readonly #rows: BossWorkers;
	readonly #store: BossQueueOptions["store"];
	readonly #pollMs: number;
	readonly #onError: (error: unknown, rolloutId: string | null) => void;
	readonly #workers = new Set<TakingWorker<BossClaim>>();
	readonly #acting = new Map<() => Promise<void>, Promise<void>>();
	readonly #timers: NodeJS.Timeout[] = [];
	#listening: Promise<{ close(): Promise<void> } | undefined> | null = null;
	#closed = false;

	constructor(
		boss: PgBoss,
		session: BossSession,
		jobs: BossJobs,
		workers: BossWorkers,
		options: BossQueueOptions & { onError: (error: unknown, rolloutId: string | null) => void },
	) {
		this.#boss = boss;
		this.#session = session;
		this.#jobs = jobs;
		this.#rows = workers;
		this.#store = options.store;
		this.#pollMs = options.pollMs ?? 1_000;
		this.#onError = options.onError;
	}

	async enqueue(jobs: { rolloutId: string; priority: number }[]): Promise<void> {
		await reaching(() => this.#jobs.add(jobs));
		this.#fill();
	}

	async work(options: WorkOptions): Promise<Worker> {
		const worker: TakingWorker<BossClaim> = new TakingWorker(options, {
			take: (room) => this.#jobs.take(room),
			ended: (claim, end) => this.#jobs.bringBack(claim, end),
			changed: () => this.#rows.saveSoon(worker, (error) => this.#onError(error, null)),
			left: () => this.#left(worker),
			threw: this.#onError,
		});
		this.#workers.add(worker);
		await this.#rows.save(worker);
		await this.#reconcile();
		this.#listen();
		this.#fill();
		return worker;
	}

	cancel(rolloutIds: string[]): Promise<void> {
		return reaching(() => this.#jobs.cancel(rolloutIds));
	}

	async depth(): Promise<number> {
		return (await reaching(() => this.#jobs.counts())).waiting;
	}

	workers(): Promise<WorkerInfo[]> {
		return reaching(() => this.#rows.list());
	}

	async leftBehind(): Promise<string[]> {
		return [];
	}

	async [Symbol.asyncDispose](): Promise<void> {
		if (this.#closed) return;
		this.#closed = true;
		await Promise.all([...this.#workers].map((worker) => worker.drain(0)));
		for (const timer of this.#timers) clearInterval(timer);
		await Promise.all(this.#acting.values());
		await (await this.#listening)?.close();
		await this.#session[Symbol.asyncDispose]();
		await this.#boss.stop({ graceful: false });
	}

	#fill(): void {
		for (const worker of this.#workers) void worker.fill();
	}

	/** Told of new work at once; asking now and then is for what nobody tells: delays that pass, jobs that come back. */
	#listen(): void {
		if (this.#listening) return;
		this.#listening = this.#jobs
			.listen(() => this.#fill())
			.catch((error) => {
				this.#onError(error, null);
				return undefined;
			});
		this.#timers.push(setInterval(() => this.#fill(), this.#pollMs));
		this.#every(LOOK_MS, () => this.#jobs.releaseDead());
		this.#every(BEAT_MS, () => this.#beat());
		this.#every(RECONCILE_MS, () => this.#reconcile());
	}

	/** Never twice at once, however slow the database is. */
	#every(ms: number, act: () => Promise<void>): void {
		const step = async () => {
			if (this.#acting.has(act)) return;
			const acting = act().catch((error) => this.#onError(error, null));
			this.#acting.set(act, acting);
			await acting;
			this.#acting.delete(act);
		};
		this.#timers.push(setInterval(() => void step(), ms));
	}

	async #beat(): Promise<void> {
		for (const worker of this.#workers) {
			await this.#rows.save(worker);
			for (const lost of await this.#jobs.beat(worker.claims())) worker.lose(lost.rolloutId);
		}
	}

	/** Every unfinished rollout has a job, even if its process died between storing and enqueuing it. */
	async #reconcile(): Promise<void> {
		const unfinished = await this.#store.counts();
		const { waiting, active } = await this.#jobs.counts();
		if (waiting + active >= unfinished.queued + unfinished.running) return;
		await eachUnfinished(this.#store, (rollouts) => this.#jobs.add(rollouts));
	}

	async #left(worker: TakingWorker<BossClaim>): Promise<void> {
		this.#workers.delete(worker);
		await this.#rows.remove(worker.id);
	}
}
