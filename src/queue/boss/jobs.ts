import type { Db, PgBoss } from "pg-boss";
import { type Kind, kindOf } from "../../model/id.ts";
import type { Room } from "../queue.ts";
import type { ClaimEnd } from "../taking-worker.ts";
import { BossJobRows } from "./job-rows.ts";
import type { BossSession } from "./session.ts";
import type { BossClaim } from "./workers.ts";

const QUEUES: Record<Kind, string> = { rollout: "rollouts", conversation: "conversations" };
const DEAD_LETTERS = "rollouts_dead";
const DAY_S = 86_400;
const LONGEST_WAIT_S = 60;

interface BossJobsOptions {
	/** Returns before a job becomes a dead letter. */
	limit: number;
	delayS: number;
	heartbeatS: number;
}

/** The jobs in pg-boss's tables: at most one live job for each rollout. */
export class BossJobs {
	readonly #boss: PgBoss;
	readonly #session: BossSession;
	readonly #rows: BossJobRows;
	readonly #channel: string;
	readonly #options: BossJobsOptions;

	constructor(boss: PgBoss, session: BossSession, schema: string, options: BossJobsOptions) {
		this.#boss = boss;
		this.#session = session;
		this.#rows = new BossJobRows(schema, Object.values(QUEUES));
		this.#channel = `${schema}_work`;
		this.#options = options;
	}

	async prepare(): Promise<void> {
		await this.#boss.createQueue(DEAD_LETTERS, { retentionSeconds: 365 * DAY_S });
		const settings = {
			heartbeatSeconds: this.#options.heartbeatS,
			retryLimit: this.#options.limit,
			// What a dead worker held is for anybody at once; what came back alive waits, see bringBack.
			retryDelay: 0,
			expireInSeconds: DAY_S,
			retentionSeconds: 365 * DAY_S,
			deleteAfterSeconds: DAY_S,
			deadLetter: DEAD_LETTERS,
		};
		for (const queue of Object.values(QUEUES)) {
			// One job, waiting or running, for each key: enqueuing twice is harmless.
			await this.#boss.createQueue(queue, { policy: "exclusive", ...settings });
			// One that was there already keeps what an earlier version thought right.
			await this.#boss.updateQueue(queue, settings);
		}
	}

	async add(jobs: { rolloutId: string; priority: number }[]): Promise<void> {
		if (jobs.length === 0) return;
		for (const [queue, own] of byQueue(jobs, ({ rolloutId }) => QUEUES[kindOf(rolloutId)]))
			await this.#boss.insert(
				queue,
				own.map(({ rolloutId, priority }) => ({ data: { rolloutId }, singletonKey: rolloutId, priority })),
			);
		await this.#tell(this.#boss.getDb());
	}

	async take(room: Room): Promise<BossClaim[]> {
		const jobs = await this.#session.transact(async ({ db, number }) => {
			const taken = [
				...(await this.#fetch("conversation", room.conversation, db)),
				...(await this.#fetch("rollout", room.rollout, db)),
			];
			await db.executeSql(
				`INSERT INTO ${this.#session.claims} (job_id, retry_count, session)
				SELECT id, retry_count, $3 FROM unnest($1::uuid[], $2::integer[]) AS taken (id, retry_count)
				ON CONFLICT (job_id) DO UPDATE SET retry_count = excluded.retry_count, session = excluded.session`,
				[taken.map((job) => job.id), taken.map((job) => job.retryCount), number],
			);
			return taken;
		});
		// The database changes rows in no particular order.
		jobs.sort((a, b) => b.priority - a.priority || a.createdOn.getTime() - b.createdOn.getTime());
		return jobs.map(({ id, name, data, retryCount }) => ({
			...{ jobId: id, queue: name, rolloutId: data.rolloutId, retryCount },
		}));
	}

	/** A claim that was lost meanwhile is not ours to settle. */
	bringBack(claim: BossClaim, end: ClaimEnd): Promise<void> {
		return this.#session.transact(async ({ db }) => {
			const held = await this.#rows.held(db, [claim], { lock: true });
			if (held.length > 0) await this.#settle(claim, end, db);
			await db.executeSql(`DELETE FROM ${this.#session.claims} WHERE job_id = $1 AND retry_count = $2`, [
				claim.jobId,
				claim.retryCount,
			]);
		});
	}

	/** What the dead held is for anybody at once. Somebody else may be doing the same: one of them comes first. */
	async releaseDead(): Promise<void> {
		const dead = await this.#session.dead();
		if (dead.length === 0) return;
		await this.#session.transact(async ({ db }) => {
			// Jobs are locked before their claims, as by who takes one: they wait for each other and never deadlock.
			const { rows }: { rows: { jobId: string; retryCount: number }[] } = await db.executeSql(
				`SELECT job_id AS "jobId", retry_count AS "retryCount" FROM ${this.#session.claims}
				WHERE session = ANY($1::integer[])`,
				[dead],
			);
			const ids = (await this.#rows.held(db, rows, { lock: true })).map(({ jobId }) => jobId);
			// Each queue takes its own of them.
			if (ids.length > 0)
				for (const queue of Object.values(QUEUES))
					await this.#boss.fail(queue, ids, { reason: "worker died" }, { db });
			await db.executeSql(`DELETE FROM ${this.#session.claims} WHERE session = ANY($1::integer[])`, [dead]);
			await this.#tell(db);
		});
	}

	/** Says that all of these are being worked on; answers those that have been lost. */
	async beat(claims: BossClaim[]): Promise<BossClaim[]> {
		if (claims.length === 0) return [];
		const held = await this.#rows.held(this.#boss.getDb(), claims, { lock: false });
		for (const [queue, own] of byQueue(held, (claim) => claim.queue))
			await this.#boss.touch(
				queue,
				own.map((claim) => claim.jobId),
			);
		return claims.filter((claim) => !held.includes(claim));
	}

	cancel(rolloutIds: string[]): Promise<void> {
		return this.#rows.removeWaiting(this.#boss.getDb(), rolloutIds);
	}

	/** Of those that wait or run. */
	counts(): Promise<{ waiting: number; active: number }> {
		return this.#rows.counts(this.#boss.getDb());
	}

	async listen(onWork: () => void): Promise<{ close(): Promise<void> } | undefined> {
		return this.#boss.getDb().listen?.(this.#channel, onWork, onWork);
	}

	async #fetch(kind: Kind, batchSize: number, db: Db) {
		if (batchSize === 0) return [];
		const options = { batchSize, includeMetadata: true, db } as const;
		return await this.#boss.fetch<{ rolloutId: string }>(QUEUES[kind], options);
	}

	async #settle({ jobId, queue, retryCount }: BossClaim, end: ClaimEnd, db: Db): Promise<void> {
		if (end === "done") {
			await this.#boss.complete(queue, jobId, undefined, { db });
			return;
		}
		await this.#boss.fail(queue, jobId, { reason: end }, { db });
		if (end === "handedBack") return this.#tell(db);
		const waitS = Math.min(this.#options.delayS * 2 ** retryCount, LONGEST_WAIT_S);
		await this.#boss.update(queue, undefined, { id: jobId, startAfter: waitS, db });
	}

	async #tell(db: Db): Promise<void> {
		await db.executeSql("SELECT pg_notify($1, '')", [this.#channel]);
	}
}

function byQueue<T>(items: T[], queueOf: (item: T) => string): [queue: string, items: T[]][] {
	return [...Map.groupBy(items, queueOf)];
}
