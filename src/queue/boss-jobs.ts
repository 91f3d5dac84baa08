import type { PgBoss } from "pg-boss";
import type { BossClaim } from "./boss-workers.ts";
import type { ClaimEnd } from "./taking-worker.ts";

const QUEUE = "rollouts";
const DEAD_LETTERS = "rollouts_dead";
/** pg-boss allows nothing shorter. */
const HEARTBEAT_S = 10;
const DAY_S = 86_400;
const LONGEST_WAIT_S = 60;

/** The jobs in pg-boss's tables: at most one live job for each rollout. */
export class BossJobs {
	readonly #boss: PgBoss;
	readonly #schema: string;
	readonly #retries: { limit: number; delayS: number };

	constructor(boss: PgBoss, schema: string, retries: { limit: number; delayS: number }) {
		this.#boss = boss;
		this.#schema = schema;
		this.#retries = retries;
	}

	async prepare(): Promise<void> {
		await this.#boss.createQueue(DEAD_LETTERS, { retentionSeconds: 365 * DAY_S });
		await this.#boss.createQueue(QUEUE, {
			// One job, waiting or running, for each key: enqueuing twice is harmless.
			policy: "exclusive",
			heartbeatSeconds: HEARTBEAT_S,
			retryLimit: this.#retries.limit,
			// What a dead worker held is for anybody at once; what came back alive waits, see bringBack.
			retryDelay: 0,
			expireInSeconds: DAY_S,
			retentionSeconds: 365 * DAY_S,
			deleteAfterSeconds: DAY_S,
			deadLetter: DEAD_LETTERS,
		});
	}

	async add(jobs: { rolloutId: string; priority: number; delayMs?: number }[]): Promise<void> {
		if (jobs.length === 0) return;
		await this.#boss.insert(
			QUEUE,
			jobs.map(({ rolloutId, priority, delayMs }) => ({
				data: { rolloutId },
				singletonKey: rolloutId,
				priority,
				...(delayMs ? { startAfter: new Date(Date.now() + delayMs) } : {}),
			})),
		);
		await this.#sql("SELECT pg_notify($1, '')", [this.#channel]);
	}

	async take(atMost: number): Promise<BossClaim[]> {
		const jobs = await this.#boss.fetch<{ rolloutId: string }>(QUEUE, {
			batchSize: atMost,
			includeMetadata: true,
		});
		// The database changes rows in no particular order.
		jobs.sort((a, b) => b.priority - a.priority || a.createdOn.getTime() - b.createdOn.getTime());
		return jobs.map(({ id, data, retryCount }) => ({ jobId: id, rolloutId: data.rolloutId, retryCount }));
	}

	/** A claim that was lost meanwhile is not ours to settle. */
	async bringBack(claim: BossClaim, end: ClaimEnd): Promise<void> {
		if ((await this.#held([claim])).length === 0) return;
		if (end === "done") {
			await this.#boss.complete(QUEUE, claim.jobId);
			return;
		}
		await this.#boss.fail(QUEUE, claim.jobId, { reason: end });
		if (end === "handedBack") {
			await this.#sql("SELECT pg_notify($1, '')", [this.#channel]);
			return;
		}
		const waitS = Math.min(this.#retries.delayS * 2 ** claim.retryCount, LONGEST_WAIT_S);
		const startAfter = new Date(Date.now() + waitS * 1000);
		await this.#boss.update(QUEUE, undefined, { id: claim.jobId, startAfter });
	}

	/** Says that all of these are being worked on; answers those that have been lost. */
	async beat(claims: BossClaim[]): Promise<BossClaim[]> {
		if (claims.length === 0) return [];
		const held = await this.#held(claims);
		if (held.length > 0) {
			await this.#boss.touch(
				QUEUE,
				held.map((claim) => claim.jobId),
			);
		}
		return claims.filter((claim) => !held.includes(claim));
	}

	/** Removes what waits; what runs is the store's and the worker's to stop. */
	async cancel(rolloutId: string): Promise<void> {
		const jobs = await this.#boss.findJobs(QUEUE, { key: rolloutId, queued: true });
		if (jobs.length > 0) {
			await this.#boss.deleteJob(
				QUEUE,
				jobs.map((job) => job.id),
			);
		}
	}

	depth(): Promise<number> {
		return this.#count("state < 'active'");
	}

	/** Waiting or running. */
	alive(): Promise<number> {
		return this.#count("state <= 'active'");
	}

	async listen(onWork: () => void): Promise<{ close(): Promise<void> } | undefined> {
		return this.#boss.getDb().listen?.(this.#channel, onWork, onWork);
	}

	get #channel(): string {
		return `${this.#schema}_work`;
	}

	/** Each fetch raises a job's count, so id and count name one claim. */
	async #held(claims: BossClaim[]): Promise<BossClaim[]> {
		const rows = await this.#sql<{ id: string; retry_count: number }>(
			`SELECT id, retry_count FROM ${this.#schema}.job WHERE name = $1 AND id = ANY($2::uuid[]) AND state = 'active'`,
			[QUEUE, claims.map((claim) => claim.jobId)],
		);
		const counts = new Map(rows.map((row) => [row.id, row.retry_count]));
		return claims.filter((claim) => counts.get(claim.jobId) === claim.retryCount);
	}

	async #count(condition: string): Promise<number> {
		const rows = await this.#sql<{ count: string }>(
			`SELECT count(*) AS count FROM ${this.#schema}.job WHERE name = $1 AND ${condition}`,
			[QUEUE],
		);
		return Number(rows[0]!.count);
	}

	async #sql<Row>(text: string, values: unknown[]): Promise<Row[]> {
		const { rows } = await this.#boss.getDb().executeSql(text, values);
		return rows as Row[];
	}
}
