import type { DatabaseSync } from "node:sqlite";
import { requireVersion, SCHEMA_VERSION } from "../schema-version.ts";

/**
 * `rollouts` stays narrow so that scans and filters touch few pages; the JSON
 * (terms, summary) lives in `rollout_bodies` and is read only for rows that are handed out. What weighs most, a task
 * with its files, is in `tasks` once, however many rollouts try it. What lists are sorted by and statistics are made
 * of is written once, at the end: `length` is the completion tokens, the phases are in seconds.
 */
const SCHEMA = `
	CREATE TABLE rollouts (
		position INTEGER PRIMARY KEY AUTOINCREMENT,
		id TEXT NOT NULL UNIQUE,
		kind TEXT NOT NULL,
		task_id TEXT NOT NULL,
		model TEXT NOT NULL,
		status TEXT NOT NULL,
		phase TEXT NOT NULL,
		attempt INTEGER NOT NULL DEFAULT 0,
		handed_back INTEGER NOT NULL DEFAULT 0,
		group_id TEXT,
		batch_id TEXT,
		created_at REAL NOT NULL,
		started_at REAL,
		finished_at REAL,
		worker TEXT,
		sandbox_id TEXT,
		session_id TEXT,
		abort_requested INTEGER NOT NULL DEFAULT 0,
		outcome TEXT,
		closed TEXT,
		reward REAL,
		failure TEXT,
		calls INTEGER NOT NULL DEFAULT 0,
		prompt_tokens INTEGER NOT NULL DEFAULT 0,
		completion_tokens INTEGER NOT NULL DEFAULT 0,
		last_seq INTEGER NOT NULL DEFAULT 0,
		revision INTEGER NOT NULL DEFAULT 0,
		duration_s REAL,
		length INTEGER,
		create_s REAL,
		setup_s REAL,
		agent_s REAL,
		verify_s REAL,
		collect_s REAL
	) STRICT;
	CREATE INDEX rollouts_status ON rollouts (status, position);
	CREATE INDEX rollouts_conversations ON rollouts (position) WHERE kind = 'conversation';
	CREATE INDEX rollouts_outcome ON rollouts (outcome, position) WHERE outcome IS NOT NULL;
	CREATE INDEX rollouts_task ON rollouts (task_id, position);
	CREATE INDEX rollouts_model ON rollouts (model, position);
	CREATE INDEX rollouts_created ON rollouts (created_at, position);
	CREATE INDEX rollouts_finished ON rollouts (finished_at, position) WHERE finished_at IS NOT NULL;
	CREATE INDEX rollouts_reward ON rollouts (reward, position) WHERE reward IS NOT NULL;
	CREATE INDEX rollouts_duration ON rollouts (duration_s, position) WHERE duration_s IS NOT NULL;
	CREATE INDEX rollouts_length ON rollouts (length, position) WHERE length IS NOT NULL;
	CREATE INDEX rollouts_group ON rollouts (group_id, position) WHERE group_id IS NOT NULL;
	CREATE INDEX rollouts_batch ON rollouts (batch_id, position) WHERE batch_id IS NOT NULL;

	CREATE VIRTUAL TABLE rollout_words USING fts5 (
		words, content = '', detail = none, columnsize = 0, tokenize = "unicode61 remove_diacritics 0"
	);
	CREATE TABLE models (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

	CREATE TABLE tasks (hash TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
	CREATE TABLE rollout_bodies (
		position INTEGER PRIMARY KEY, terms TEXT NOT NULL, task_hash TEXT NOT NULL, summary TEXT
	) STRICT;

	CREATE TABLE labels (
		name TEXT NOT NULL, value TEXT NOT NULL, position INTEGER NOT NULL,
		PRIMARY KEY (name, value, position)
	) STRICT, WITHOUT ROWID;

	CREATE TABLE events (
		rollout INTEGER NOT NULL, seq INTEGER NOT NULL, at REAL NOT NULL, body TEXT NOT NULL,
		PRIMARY KEY (rollout, seq)
	) STRICT, WITHOUT ROWID;

	CREATE TABLE groups (
		position INTEGER PRIMARY KEY AUTOINCREMENT,
		id TEXT NOT NULL UNIQUE, task_id TEXT NOT NULL, batch_id TEXT, n INTEGER NOT NULL, created_at REAL NOT NULL
	) STRICT;
	CREATE INDEX groups_batch ON groups (batch_id, position) WHERE batch_id IS NOT NULL;

	CREATE TABLE batches (
		position INTEGER PRIMARY KEY AUTOINCREMENT,
		id TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, created_at REAL NOT NULL, labels TEXT NOT NULL
	) STRICT;

	CREATE TABLE submissions (
		key TEXT PRIMARY KEY, rollout_ids TEXT NOT NULL, group_id TEXT, batch_id TEXT, fingerprint TEXT
	) STRICT, WITHOUT ROWID;

	CREATE TABLE commands (
		position INTEGER PRIMARY KEY AUTOINCREMENT, rollout_id TEXT NOT NULL, body TEXT NOT NULL
	) STRICT;
	CREATE INDEX commands_rollout ON commands (rollout_id, position);

	CREATE TABLE vault_keys (name TEXT PRIMARY KEY, wrapped BLOB NOT NULL) STRICT, WITHOUT ROWID;
	CREATE TABLE credentials (
		label TEXT PRIMARY KEY, id TEXT NOT NULL, record TEXT NOT NULL, sealed BLOB NOT NULL
	) STRICT;
	CREATE TABLE kept_agents (
		name TEXT PRIMARY KEY, id TEXT NOT NULL, record TEXT NOT NULL, sealed BLOB NOT NULL, revision INTEGER NOT NULL
	) STRICT;
	CREATE TABLE secrets (rollout_id TEXT PRIMARY KEY, sealed BLOB NOT NULL) STRICT, WITHOUT ROWID;
`;

/** Settings every connection needs, whichever thread opens it. */
export function configure(database: DatabaseSync): void {
	database.exec(`
		PRAGMA busy_timeout = 10000;
		PRAGMA journal_mode = WAL;
		PRAGMA synchronous = FULL;
		PRAGMA secure_delete = ON;
		PRAGMA cache_size = -8000;
		PRAGMA wal_autocheckpoint = 8000;
		PRAGMA journal_size_limit = 67108864;
		PRAGMA temp_store = MEMORY;
	`);
}

/** Makes the tables of a new file. Several processes may do this at once: the write lock lets one through. */
export function prepare(database: DatabaseSync, file: string): void {
	if (versionOf(database) === SCHEMA_VERSION) return;
	database.exec("BEGIN IMMEDIATE");
	try {
		const version = versionOf(database);
		if (version === 0) database.exec(`${SCHEMA} PRAGMA user_version = ${SCHEMA_VERSION}`);
		else requireVersion(version, `The store in ${file}`);
		database.exec("COMMIT");
	} catch (error) {
		if (database.isTransaction) database.exec("ROLLBACK");
		throw error;
	}
}

function versionOf(database: DatabaseSync): number {
	return Number(database.prepare("PRAGMA user_version").get()?.user_version ?? 0);
}
