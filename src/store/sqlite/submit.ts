import type { Batch, Group } from "../../model/rollout.ts";
import {
	firstEvent,
	type StoredRollout,
	type StoredSubmission,
	type SubmissionRow,
	type Submitted,
	toKnown,
	toSubmitted,
} from "../submission.ts";
import type { Statements } from "./statements.ts";

/** Stores a submission inside the caller's transaction, or finds the one that came before with the same key. */
export function submit(sql: Statements, submission: StoredSubmission): Submitted {
	const known = submission.idempotencyKey === null ? null : find(sql, submission.idempotencyKey);
	if (known) return known;
	for (const group of submission.groups) insertGroup(sql, group);
	if (submission.batch) insertBatch(sql, submission.batch);
	for (const { hash, body } of submission.tasks) {
		sql.run("INSERT INTO tasks (hash, body) VALUES (?, ?) ON CONFLICT DO NOTHING", hash, body);
	}
	for (const model of new Set(submission.rollouts.map((rollout) => rollout.model))) {
		sql.run("INSERT INTO models (name) VALUES (?) ON CONFLICT DO NOTHING", model);
	}
	for (const rollout of submission.rollouts) insertRollout(sql, rollout, submission.at);
	return remember(sql, submission);
}

function find(sql: Statements, key: string): Submitted | null {
	const row = sql.get<SubmissionRow>(
		"SELECT rollout_ids, group_id, batch_id, fingerprint FROM submissions WHERE key = ?",
		key,
	);
	return row ? toKnown(row) : null;
}

function remember(sql: Statements, submission: StoredSubmission): Submitted {
	const submitted = toSubmitted(submission);
	if (submission.idempotencyKey !== null) {
		sql.run(
			"INSERT INTO submissions (key, rollout_ids, group_id, batch_id, fingerprint) VALUES (?, ?, ?, ?, ?)",
			submission.idempotencyKey,
			JSON.stringify(submitted.ids),
			submitted.groupId,
			submitted.batchId,
			submitted.fingerprint,
		);
	}
	return submitted;
}

function insertGroup(sql: Statements, group: Group): void {
	sql.run(
		"INSERT INTO groups (id, task_id, batch_id, n, created_at) VALUES (?, ?, ?, ?, ?)",
		group.id,
		group.taskId,
		group.batchId,
		group.n,
		group.createdAt,
	);
}

function insertBatch(sql: Statements, batch: Batch): void {
	sql.run(
		"INSERT INTO batches (id, size, created_at, labels) VALUES (?, ?, ?, ?)",
		batch.id,
		batch.size,
		batch.createdAt,
		JSON.stringify(batch.labels),
	);
}

function insertRollout(sql: Statements, rollout: StoredRollout, at: number): void {
	const row = sql.get<{ position: number }>(
		`INSERT INTO rollouts (id, kind, task_id, model, status, phase, group_id, batch_id, created_at, last_seq, revision)
		VALUES (?, ?, ?, ?, 'queued', 'queued', ?, ?, ?, 1, 1) RETURNING position`,
		rollout.id,
		rollout.kind,
		rollout.taskId,
		rollout.model,
		rollout.groupId,
		rollout.batchId,
		at,
	);
	const position = row!.position;
	sql.run(
		"INSERT INTO rollout_bodies (position, terms, task_hash) VALUES (?, ?, ?)",
		position,
		rollout.terms,
		rollout.taskHash,
	);
	sql.run("INSERT INTO rollout_words (rowid, words) VALUES (?, ?)", position, rollout.words);
	sql.run(
		"INSERT INTO events (rollout, seq, at, body) VALUES (?, 1, ?, ?)",
		position,
		at,
		JSON.stringify(firstEvent(rollout)),
	);
	for (const [name, value] of rollout.labels) {
		sql.run("INSERT INTO labels (name, value, position) VALUES (?, ?, ?)", name, value, position);
	}
	if (rollout.sealed) {
		sql.run("INSERT INTO secrets (rollout_id, sealed) VALUES (?, ?)", rollout.id, rollout.sealed);
	}
}
