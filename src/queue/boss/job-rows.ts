import type { Db } from "pg-boss";
import type { BossClaim } from "./workers.ts";

/**
 * All that is asked of pg-boss's own table behind its back. Its API can neither lock a job before it is settled, nor
 * remove what still waits without also removing what was just taken, and its counts may be a minute old. The columns
 * this rests on are checked by a test, so that an update of pg-boss which changes them is noticed before it is used.
 */
export class BossJobRows {
	readonly #table: string;
	readonly #queues: string[];

	constructor(schema: string, queues: string[]) {
		this.#table = `${schema}.job`;
		this.#queues = queues;
	}

	/** Which of these claims still stand: each fetch raises a job's count, so id and count name one claim. */
	async held<C extends Pick<BossClaim, "jobId" | "retryCount">>(
		db: Db,
		claims: C[],
		options: { lock: boolean },
	): Promise<C[]> {
		const { rows }: { rows: { id: string; retry_count: number }[] } = await db.executeSql(
			`SELECT id, retry_count FROM ${this.#table}
			WHERE name = ANY($1) AND id = ANY($2::uuid[]) AND state = 'active'
			${options.lock ? "ORDER BY id FOR UPDATE" : ""}`,
			[this.#queues, claims.map((claim) => claim.jobId)],
		);
		const counts = new Map(rows.map((row) => [row.id, row.retry_count]));
		return claims.filter((claim) => counts.get(claim.jobId) === claim.retryCount);
	}

	async removeWaiting(db: Db, rolloutIds: string[]): Promise<void> {
		await db.executeSql(
			`DELETE FROM ${this.#table} WHERE name = ANY($1) AND singleton_key = ANY($2) AND state < 'active'`,
			[this.#queues, rolloutIds],
		);
	}

	async counts(db: Db): Promise<{ waiting: number; active: number }> {
		const { rows }: { rows: { waiting: string; active: string }[] } = await db.executeSql(
			`SELECT count(*) FILTER (WHERE state < 'active') AS waiting,
				count(*) FILTER (WHERE state = 'active') AS active
			FROM ${this.#table} WHERE name = ANY($1) AND state <= 'active'`,
			[this.#queues],
		);
		return { waiting: Number(rows[0]!.waiting), active: Number(rows[0]!.active) };
	}
}
