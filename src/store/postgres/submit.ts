import type pg from "pg";
import {
	firstEvent,
	type StoredSubmission,
	type SubmissionRow,
	type Submitted,
	toKnown,
	toSubmitted,
} from "../submission.ts";

/**
 * Stores a submission inside the caller's transaction. Submissions go one after the other: positions then become
 * visible in order, so that a page can never skip one that commits late, and a key is seen by the next with it.
 */
export async function submit(client: pg.PoolClient, submission: StoredSubmission): Promise<Submitted> {
	await client.query("SELECT pg_advisory_xact_lock(hashtext('paddock submit ' || current_schema()))");
	const known = submission.idempotencyKey === null ? null : await find(client, submission.idempotencyKey);
	if (known) return known;
	await insertGroups(client, submission);
	const { batch } = submission;
	if (batch) {
		await client.query("INSERT INTO batches (id, size, created_at, labels) VALUES ($1, $2, $3, $4)", [
			batch.id,
			batch.size,
			batch.createdAt,
			JSON.stringify(batch.labels),
		]);
	}
	await insertTasks(client, submission);
	await client.query("INSERT INTO models (name) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING", [
		[...new Set(submission.rollouts.map((rollout) => rollout.model))],
	]);
	await insertRollouts(client, submission);
	return remember(client, submission);
}

async function find(client: pg.PoolClient, key: string): Promise<Submitted | null> {
	const { rows } = await client.query<SubmissionRow>(
		"SELECT rollout_ids, group_id, batch_id, fingerprint FROM submissions WHERE key = $1",
		[key],
	);
	return rows[0] ? toKnown(rows[0]) : null;
}

async function remember(client: pg.PoolClient, submission: StoredSubmission): Promise<Submitted> {
	const submitted = toSubmitted(submission);
	const { ids, groupId, batchId, fingerprint } = submitted;
	if (submission.idempotencyKey !== null) {
		await client.query(
			"INSERT INTO submissions (key, rollout_ids, group_id, batch_id, fingerprint) VALUES ($1, $2, $3, $4, $5)",
			[submission.idempotencyKey, JSON.stringify(ids), groupId, batchId, fingerprint],
		);
	}
	return submitted;
}

async function insertGroups(client: pg.PoolClient, { groups }: StoredSubmission): Promise<void> {
	if (groups.length === 0) return;
	await client.query(
		`INSERT INTO groups (id, task_id, batch_id, n, created_at)
		SELECT id, task_id, batch_id, n, created_at
		FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[], $5::double precision[])
			WITH ORDINALITY AS given (id, task_id, batch_id, n, created_at, place) ORDER BY place`,
		[
			groups.map((group) => group.id),
			groups.map((group) => group.taskId),
			groups.map((group) => group.batchId),
			groups.map((group) => group.n),
			groups.map((group) => group.createdAt),
		],
	);
}

async function insertTasks(client: pg.PoolClient, { tasks }: StoredSubmission): Promise<void> {
	await client.query(
		"INSERT INTO tasks (hash, body) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING",
		[tasks.map((task) => task.hash), tasks.map((task) => task.body)],
	);
}

async function insertRollouts(client: pg.PoolClient, { rollouts, at }: StoredSubmission): Promise<void> {
	const { rows } = await client.query<{ id: string; position: number }>(
		`INSERT INTO rollouts (id, kind, task_id, model, status, phase, group_id, batch_id, created_at, last_seq, revision)
		SELECT id, kind, task_id, model, 'queued', 'queued', group_id, batch_id, $7, 1, 1
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
			WITH ORDINALITY AS given (id, kind, task_id, model, group_id, batch_id, place) ORDER BY place
		RETURNING id, position`,
		[
			rollouts.map((rollout) => rollout.id),
			rollouts.map((rollout) => rollout.kind),
			rollouts.map((rollout) => rollout.taskId),
			rollouts.map((rollout) => rollout.model),
			rollouts.map((rollout) => rollout.groupId),
			rollouts.map((rollout) => rollout.batchId),
			at,
		],
	);
	const positions = new Map(rows.map((row) => [row.id, row.position]));
	const placed = rollouts.map((rollout) => ({ ...rollout, position: positions.get(rollout.id)! }));
	await client.query(
		"INSERT INTO rollout_bodies (position, terms, task_hash) SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])",
		[
			placed.map((rollout) => rollout.position),
			placed.map((rollout) => rollout.terms),
			placed.map((rollout) => rollout.taskHash),
		],
	);
	await client.query(
		`INSERT INTO rollout_words (position, words)
		SELECT position, array_to_tsvector(string_to_array(words, ' '))
		FROM unnest($1::bigint[], $2::text[]) AS given (position, words)`,
		[placed.map((rollout) => rollout.position), placed.map((rollout) => rollout.words)],
	);
	await client.query(
		"INSERT INTO events (rollout, seq, at, body) SELECT position, 1, $3, body FROM unnest($1::bigint[], $2::text[]) AS given (position, body)",
		[
			placed.map((rollout) => rollout.position),
			placed.map((rollout) => JSON.stringify(firstEvent(rollout))),
			at,
		],
	);
	const labels = placed.flatMap(({ position, labels }) =>
		labels.map(([name, value]) => ({ position, name, value })),
	);
	await client.query(
		"INSERT INTO labels (name, value, position) SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])",
		[
			labels.map((label) => label.name),
			labels.map((label) => label.value),
			labels.map((label) => label.position),
		],
	);
	const secrets = placed.filter((rollout) => rollout.sealed !== null);
	await client.query(
		"INSERT INTO secrets (rollout_id, sealed) SELECT * FROM unnest($1::text[], $2::bytea[])",
		[secrets.map((rollout) => rollout.id), secrets.map((rollout) => rollout.sealed)],
	);
}
