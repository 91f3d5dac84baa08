import { hostname } from "node:os";
import type { PgBoss } from "pg-boss";
import type { WorkerInfo, WorkerState } from "../queue.ts";
import type { Claim } from "../taking-worker.ts";

export interface BossClaim extends Claim {
	/** As pg-boss calls it. */
	queue: string;
	jobId: string;
	retryCount: number;
}

/** Asked for when it is saved: by then more may have changed. */
type Announcement = { readonly state: WorkerState };

const SILENT_S = 30;

/** Who works, as each worker says of itself every few seconds. */
export class BossWorkers {
	readonly #boss: PgBoss;
	readonly #table: string;
	/** Workers with news that are not saved yet, and the saving that is under way for each. */
	readonly #news = new Set<string>();
	readonly #saving = new Map<string, Promise<void>>();

	constructor(boss: PgBoss, schema: string) {
		this.#boss = boss;
		this.#table = `${schema}.paddock_workers`;
	}

	/** One text is one transaction: of several that start at once, one creates it. */
	async prepare(): Promise<void> {
		await this.#boss.getDb().executeSql(`
			SELECT pg_advisory_xact_lock(hashtext('${this.#table}'));
			CREATE TABLE IF NOT EXISTS ${this.#table} (
				id text PRIMARY KEY, host text NOT NULL, pid integer NOT NULL, capacity integer NOT NULL,
				running integer NOT NULL, draining boolean NOT NULL, started_at double precision NOT NULL,
				seen_at timestamptz NOT NULL
			);
			ALTER TABLE ${this.#table}
				ADD COLUMN IF NOT EXISTS max_conversations integer NOT NULL DEFAULT 0,
				ADD COLUMN IF NOT EXISTS conversations integer NOT NULL DEFAULT 0;
		`);
	}

	async save({ state }: Announcement): Promise<void> {
		await this.#boss.getDb().executeSql(
			`INSERT INTO ${this.#table}
				(id, host, pid, capacity, running, max_conversations, conversations, draining, started_at, seen_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now())
			ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, capacity = excluded.capacity,
				running = excluded.running, max_conversations = excluded.max_conversations,
				conversations = excluded.conversations, draining = excluded.draining,
				started_at = excluded.started_at, seen_at = now()`,
			[
				state.id,
				hostname(),
				process.pid,
				state.capacity,
				state.running,
				state.maxConversations,
				state.conversations,
				state.draining,
				state.startedAt,
			],
		);
	}

	/** Saves one after the other; what changes meanwhile is in the next one. */
	saveSoon(worker: Announcement, onError: (error: unknown) => void): void {
		const { id } = worker.state;
		this.#news.add(id);
		if (this.#saving.has(id)) return;
		const saving = this.#saveNews(worker)
			.catch(onError)
			.then(() => {
				this.#saving.delete(id);
				if (this.#news.has(id)) this.saveSoon(worker, onError);
			});
		this.#saving.set(id, saving);
	}

	async remove(id: string): Promise<void> {
		this.#news.delete(id);
		await this.#saving.get(id);
		await this.#boss.getDb().executeSql(`DELETE FROM ${this.#table} WHERE id = $1`, [id]);
	}

	/** By the database's clock, since machines disagree about the time. */
	async list(): Promise<WorkerInfo[]> {
		await this.#boss
			.getDb()
			.executeSql(`DELETE FROM ${this.#table} WHERE seen_at < now() - interval '1 day'`);
		const { rows } = await this.#boss.getDb().executeSql(
			`SELECT id, host, pid, capacity, running, max_conversations AS "maxConversations", conversations, draining,
				started_at AS "startedAt",
				extract(epoch FROM seen_at)::double precision * 1000 AS "seenAt"
			FROM ${this.#table} WHERE seen_at > now() - interval '${SILENT_S} seconds' ORDER BY started_at`,
		);
		return rows as WorkerInfo[];
	}

	async #saveNews(worker: Announcement): Promise<void> {
		while (this.#news.delete(worker.state.id)) await this.save(worker);
	}
}
