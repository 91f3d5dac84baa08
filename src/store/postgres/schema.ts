import type { ClientBase } from "pg";
import { requireVersion, SCHEMA_VERSION } from "../schema-version.ts";

/** The same shape as the embedded store, plus the bytes kept in rows. */
const SCHEMA = `
	CREATE TABLE rollouts (
		position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		id text NOT NULL UNIQUE,
		kind text NOT NULL,
		task_id text NOT NULL,
		model text NOT NULL,
		status text NOT NULL,
		phase text NOT NULL,
		attempt integer NOT NULL DEFAULT 0,
		handed_back integer NOT NULL DEFAULT 0,
		group_id text,
		batch_id text,
		created_at double precision NOT NULL,
		started_at double precision,
		finished_at double precision,
		worker text,
		sandbox_id text,
		session_id text,
		abort_requested boolean NOT NULL DEFAULT false,
		outcome text,
		closed text,
		reward double precision,
		failure text,
		calls integer NOT NULL DEFAULT 0,
		prompt_tokens bigint NOT NULL DEFAULT 0,
		completion_tokens bigint NOT NULL DEFAULT 0,
		last_seq integer NOT NULL DEFAULT 0,
		revision integer NOT NULL DEFAULT 0,
		duration_s double precision,
		length bigint,
		create_s double precision,
		setup_s double precision,
		agent_s double precision,
		verify_s double precision,
		collect_s double precision
	) WITH (fillfactor = 70);
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

	CREATE TABLE rollout_words (position bigint PRIMARY KEY, words tsvector NOT NULL);
	CREATE INDEX rollout_words_words ON rollout_words USING gin (words);
	CREATE TABLE models (name text PRIMARY KEY);

	CREATE TABLE tasks (hash text PRIMARY KEY, body text NOT NULL);
	CREATE TABLE rollout_bodies (
		position bigint PRIMARY KEY, terms text NOT NULL, task_hash text NOT NULL, summary text
	);
	CREATE TABLE labels (
		name text NOT NULL, value text NOT NULL, position bigint NOT NULL, PRIMARY KEY (name, value, position)
	);
	CREATE TABLE events (
		rollout bigint NOT NULL, seq integer NOT NULL, at double precision NOT NULL, body text NOT NULL,
		PRIMARY KEY (rollout, seq)
	);
	CREATE TABLE groups (
		position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		id text NOT NULL UNIQUE, task_id text NOT NULL, batch_id text, n integer NOT NULL,
		created_at double precision NOT NULL
	);
	CREATE INDEX groups_batch ON groups (batch_id, position) WHERE batch_id IS NOT NULL;
	CREATE TABLE batches (
		position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		id text NOT NULL UNIQUE, size integer NOT NULL, created_at double precision NOT NULL, labels text NOT NULL
	);
	CREATE TABLE submissions (
		key text PRIMARY KEY, rollout_ids text NOT NULL, group_id text, batch_id text, fingerprint text
	);
	CREATE TABLE commands (
		position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, rollout_id text NOT NULL, body text NOT NULL
	);
	CREATE INDEX commands_rollout ON commands (rollout_id, position);
	CREATE TABLE secrets (rollout_id text PRIMARY KEY, sealed bytea NOT NULL);
	CREATE TABLE credentials (
		label text PRIMARY KEY, id text NOT NULL, record text NOT NULL, sealed bytea NOT NULL
	);
	CREATE TABLE kept_agents (
		name text PRIMARY KEY, id text NOT NULL, record text NOT NULL, sealed bytea NOT NULL, revision integer NOT NULL
	);
	CREATE TABLE vault_keys (name text PRIMARY KEY, wrapped bytea NOT NULL);

	CREATE TABLE trace_chunks (
		rollout_id text NOT NULL, attempt integer NOT NULL, n bigint GENERATED ALWAYS AS IDENTITY,
		bytes bytea NOT NULL, PRIMARY KEY (rollout_id, attempt, n)
	);
	CREATE TABLE blobs (rollout_id text NOT NULL, name text NOT NULL, PRIMARY KEY (rollout_id, name));
	CREATE TABLE blob_chunks (
		rollout_id text NOT NULL, name text NOT NULL, n integer NOT NULL, bytes bytea NOT NULL,
		PRIMARY KEY (rollout_id, name, n)
	);
`;

/** Makes the tables of a new schema. Of several that start at once, one works and the others wait for it. */
export async function prepare(client: ClientBase, schema: string): Promise<void> {
	await client.query("BEGIN");
	try {
		await client.query("SELECT pg_advisory_xact_lock(hashtext($1))", [`paddock prepare ${schema}`]);
		await client.query(`CREATE SCHEMA IF NOT EXISTS "${schema}"`);
		await client.query("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)");
		const { rows } = await client.query<{ version: number }>("SELECT version FROM schema_version");
		if (rows[0]) requireVersion(rows[0].version, "The database");
		else {
			await client.query(SCHEMA);
			await client.query("INSERT INTO schema_version (version) VALUES ($1)", [SCHEMA_VERSION]);
		}
		await client.query("COMMIT");
	} catch (error) {
		await client.query("ROLLBACK");
		throw error;
	}
}
