import { chmodSync, closeSync, mkdirSync, openSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { CONVERSATION, type Kind } from "../../model/id.ts";
import { Statements } from "../../store/sqlite/statements.ts";
import type { WorkerInfo, WorkerState } from "../queue.ts";
import type { ProcessIdentity } from "./process-identity.ts";

const SCHEMA = `
	CREATE TABLE IF NOT EXISTS owners (
		key TEXT PRIMARY KEY, pid INTEGER NOT NULL, started TEXT NOT NULL, boot TEXT NOT NULL,
		namespace TEXT NOT NULL, host TEXT NOT NULL, seen_at REAL NOT NULL
	) STRICT;
	CREATE TABLE IF NOT EXISTS workers (
		owner TEXT NOT NULL, id TEXT NOT NULL, capacity INTEGER NOT NULL, running INTEGER NOT NULL,
		draining INTEGER NOT NULL, started_at REAL NOT NULL, PRIMARY KEY (owner, id)
	) STRICT;
	CREATE TABLE IF NOT EXISTS jobs (
		position INTEGER PRIMARY KEY AUTOINCREMENT,
		rollout_id TEXT NOT NULL UNIQUE,
		priority INTEGER NOT NULL,
		enqueued_at REAL NOT NULL,
		ready_at REAL NOT NULL,
		state TEXT NOT NULL,
		owner TEXT,
		tries INTEGER NOT NULL DEFAULT 0
	) STRICT;
`;

/** What the file of an earlier version lacks. */
const COLUMNS = [
	["workers", "max_conversations", "INTEGER NOT NULL DEFAULT 0"],
	["workers", "conversations", "INTEGER NOT NULL DEFAULT 0"],
	[
		"jobs",
		"kind",
		`TEXT AS (CASE WHEN rollout_id GLOB '${CONVERSATION}_*' THEN 'conversation' ELSE 'rollout' END)`,
	],
] as const;

const INDEXES = `
	DROP INDEX IF EXISTS jobs_next;
	CREATE INDEX IF NOT EXISTS jobs_next_of_kind ON jobs (state, kind, priority DESC, position);
`;

export interface Owner extends ProcessIdentity {
	key: string;
	seenAt: number;
	works: boolean;
}

/**
 * Who holds which rollout. A cache of the store's unfinished rollouts plus claims: it may be lost with the machine
 * (no sync per write) and is rebuilt from the store, but a killed process loses nothing.
 */
export class JobTable implements Disposable {
	readonly #database: DatabaseSync;
	readonly #sql: Statements;

	constructor(file: string) {
		mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
		closeSync(openSync(file, "a", 0o600));
		chmodSync(file, 0o600);
		this.#database = new DatabaseSync(file);
		this.#database.exec(
			"PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;",
		);
		this.#sql = new Statements(this.#database);
		this.transact(() => this.#prepare());
	}

	transact<T>(change: () => T): T {
		return this.#sql.transact(change);
	}

	/** New jobs belong to `owner`; one that is waiting for anybody becomes its own. */
	add(rolloutId: string, priority: number, owner: string | null, now: number): void {
		this.#sql.run(
			`INSERT INTO jobs (rollout_id, priority, enqueued_at, ready_at, state, owner) VALUES (?, ?, ?, ?, 'waiting', ?)
			ON CONFLICT (rollout_id) DO UPDATE SET owner = excluded.owner WHERE state = 'waiting' AND owner IS NULL`,
			rolloutId,
			priority,
			now,
			now,
			owner,
		);
	}

	/** The most urgent job of the kind that is the owner's or, if it adopts, nobody's. */
	take(kind: Kind, owner: string, adopts: boolean, now: number): string | null {
		const row = this.#sql.get<{ rollout_id: string }>(
			`UPDATE jobs SET state = 'running', owner = ?1, tries = tries + 1 WHERE position = (
				SELECT position FROM jobs
				WHERE state = 'waiting' AND kind = ?4 AND ready_at <= ?2 AND (owner = ?1 OR (?3 AND owner IS NULL))
				ORDER BY priority DESC, position LIMIT 1
			) RETURNING rollout_id`,
			owner,
			now,
			adopts ? 1 : 0,
			kind,
		);
		return row?.rollout_id ?? null;
	}

	/** When the owner's next delayed job becomes ready. */
	nextReadyAt(owner: string, adopts: boolean, now: number): number | null {
		const row = this.#sql.get<{ at: number | null }>(
			"SELECT min(ready_at) AS at FROM jobs WHERE state = 'waiting' AND ready_at > ?1 AND (owner = ?2 OR (?3 AND owner IS NULL))",
			now,
			owner,
			adopts ? 1 : 0,
		);
		return row!.at;
	}

	/** What is due after `latest` was written while the clock was wrong. */
	hasten(now: number, latest: number): void {
		this.#sql.run("UPDATE jobs SET ready_at = ? WHERE state = 'waiting' AND ready_at > ?", now, latest);
	}

	tries(rolloutId: string): number {
		const row = this.#sql.get<{ tries: number }>("SELECT tries FROM jobs WHERE rollout_id = ?", rolloutId);
		return row?.tries ?? 0;
	}

	complete(rolloutId: string, owner: string): void {
		this.#sql.run(
			"DELETE FROM jobs WHERE rollout_id = ? AND owner = ? AND state = 'running'",
			rolloutId,
			owner,
		);
	}

	/** Back to waiting, for the owner or (null) for anybody. */
	putBack(rolloutId: string, owner: string, nextOwner: string | null, readyAt: number): void {
		this.#sql.run(
			`UPDATE jobs SET state = 'waiting', owner = ?, ready_at = ?
			WHERE rollout_id = ? AND owner = ? AND state = 'running'`,
			nextOwner,
			readyAt,
			rolloutId,
			owner,
		);
	}

	removeWaiting(rolloutId: string): void {
		this.#sql.run("DELETE FROM jobs WHERE rollout_id = ? AND state = 'waiting'", rolloutId);
	}

	isRunning(rolloutId: string, owner: string): boolean {
		const sql = "SELECT 1 FROM jobs WHERE rollout_id = ? AND owner = ? AND state = 'running'";
		return this.#sql.get(sql, rolloutId, owner) !== undefined;
	}

	/** All the owner held is anybody's, also what it was running: for an owner that is no more. */
	release(owner: string): void {
		this.#sql.run("UPDATE jobs SET state = 'waiting', owner = NULL WHERE owner = ?", owner);
		this.#sql.run("DELETE FROM workers WHERE owner = ?", owner);
		this.#sql.run("DELETE FROM owners WHERE key = ?", owner);
	}

	/** What a process without a worker has waiting since before `then` is anybody's. */
	share(owner: string, then: number): void {
		this.#sql.run(
			"UPDATE jobs SET owner = NULL WHERE owner = ? AND state = 'waiting' AND enqueued_at < ?",
			owner,
			then,
		);
	}

	heldBy(owner: string): string[] {
		const rows = this.#sql.all<{ id: string }>("SELECT rollout_id AS id FROM jobs WHERE owner = ?", owner);
		return rows.map(({ id }) => id);
	}

	counts(): { waiting: number; total: number } {
		const row = this.#sql.get<{ waiting: number; total: number }>(
			"SELECT coalesce(sum(state = 'waiting'), 0) AS waiting, count(*) AS total FROM jobs",
		);
		return { ...row! };
	}

	announce(key: string, identity: ProcessIdentity, now: number): void {
		this.#sql.run(
			`INSERT INTO owners (key, pid, started, boot, namespace, host, seen_at) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET seen_at = excluded.seen_at`,
			key,
			identity.pid,
			identity.started,
			identity.boot,
			identity.namespace,
			identity.host,
			now,
		);
	}

	owners(): Owner[] {
		const rows = this.#sql.all<Omit<Owner, "works"> & { works: number }>(
			`SELECT key, pid, started, boot, namespace, host, seen_at AS seenAt,
				EXISTS (SELECT 1 FROM workers WHERE owner = key AND NOT draining) AS works FROM owners`,
		);
		return rows.map((row) => ({ ...row, works: row.works === 1 }));
	}

	saveWorker(owner: string, worker: WorkerState): void {
		this.#sql.run(
			`INSERT INTO workers (owner, id, capacity, running, max_conversations, conversations, draining, started_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (owner, id) DO UPDATE SET capacity = excluded.capacity, running = excluded.running,
				max_conversations = excluded.max_conversations, conversations = excluded.conversations,
				draining = excluded.draining`,
			owner,
			worker.id,
			worker.capacity,
			worker.running,
			worker.maxConversations,
			worker.conversations,
			worker.draining ? 1 : 0,
			worker.startedAt,
		);
	}

	removeWorker(owner: string, id: string): void {
		this.#sql.run("DELETE FROM workers WHERE owner = ? AND id = ?", owner, id);
	}

	workersOf(owner: Owner): WorkerInfo[] {
		const rows = this.#sql.all<
			Omit<WorkerInfo, "draining" | "host" | "pid" | "seenAt"> & { draining: number }
		>(
			`SELECT id, capacity, running, max_conversations AS maxConversations, conversations, draining,
				started_at AS startedAt FROM workers WHERE owner = ? ORDER BY started_at`,
			owner.key,
		);
		return rows.map((row) => ({
			...row,
			draining: row.draining === 1,
			host: owner.host,
			pid: owner.pid,
			seenAt: owner.seenAt,
		}));
	}

	[Symbol.dispose](): void {
		this.#database.close();
	}

	#prepare(): void {
		this.#database.exec(SCHEMA);
		for (const [table, column, type] of COLUMNS) {
			const found = "SELECT 1 FROM pragma_table_xinfo(?) WHERE name = ?";
			if (this.#sql.get(found, table, column) === undefined)
				this.#database.exec(`ALTER TABLE ${table} ADD COLUMN ${column} ${type}`);
		}
		this.#database.exec(INDEXES);
	}
}
