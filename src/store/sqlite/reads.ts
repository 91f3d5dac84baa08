import type { RolloutEvent } from "../../model/event.ts";
import type { Batch, Group, Rollout, RolloutRow } from "../../model/rollout.ts";
import { summarize } from "../group-summary.ts";
import { readCursor, toPage } from "../page.ts";
import {
	type BatchRow,
	type EventRow,
	type GroupRow,
	type RolloutColumns,
	toBatch,
	toEvent,
	toGroup,
	toRollout,
	toRow,
	type WholeColumns,
} from "../rows.ts";
import type { GroupSummary, Page, RolloutFilter } from "../store.ts";
import { listRows } from "./list.ts";
import type { Statements } from "./statements.ts";

interface ListOptions {
	cursor?: string;
	limit: number;
	order?: "newest" | "oldest";
}

/** Every question the embedded store can answer, on a connection that only reads. */
export class SqliteReads {
	readonly #sql: Statements;

	constructor(sql: Statements) {
		this.#sql = sql;
	}

	get(id: string): Rollout | null {
		const row = this.#sql.get<WholeColumns>(
			`SELECT r.*, b.terms, b.summary, t.body AS task FROM rollouts r
			CROSS JOIN rollout_bodies b USING (position) CROSS JOIN tasks t ON t.hash = b.task_hash WHERE r.id = ?`,
			id,
		);
		return row ? toRollout(row) : null;
	}

	row(id: string): RolloutRow | null {
		const row = this.#sql.get<RolloutColumns>(
			"SELECT r.*, b.terms FROM rollouts r CROSS JOIN rollout_bodies b USING (position) WHERE r.id = ?",
			id,
		);
		return row ? toRow(row) : null;
	}

	attempt(id: string): number | null {
		return (
			this.#sql.get<{ attempt: number }>("SELECT attempt FROM rollouts WHERE id = ?", id)?.attempt ?? null
		);
	}

	list(filter: RolloutFilter, options: ListOptions): Page<RolloutRow> {
		const rows = listRows(this.#sql, filter, {
			cursor: readCursor(options.cursor),
			oldest: options.order === "oldest",
			limit: options.limit + 1,
		});
		return toPage(rows, options.limit, toRow);
	}

	counts(): { queued: number; running: number; done: number } {
		const counts = { queued: 0, running: 0, done: 0 };
		const rows = this.#sql.all<{ status: keyof typeof counts; count: number }>(
			"SELECT status, count(*) AS count FROM rollouts GROUP BY status",
		);
		for (const row of rows) counts[row.status] = row.count;
		return counts;
	}

	group(id: string): GroupSummary | null {
		const row = this.#sql.get<GroupRow>("SELECT * FROM groups WHERE id = ?", id);
		if (!row) return null;
		const rollouts = this.#sql.all<GroupSummary["rollouts"][number]>(
			"SELECT id, status, outcome, reward FROM rollouts WHERE group_id = ? ORDER BY position",
			id,
		);
		return summarize(
			toGroup(row),
			rollouts.map((rollout) => ({ ...rollout })),
		);
	}

	plainGroup(id: string | null): Group | null {
		if (id === null) return null;
		const row = this.#sql.get<GroupRow>("SELECT * FROM groups WHERE id = ?", id);
		return row ? toGroup(row) : null;
	}

	listGroups(options: { batchId?: string; cursor?: string; limit: number }): Page<Group> {
		const before = readCursor(options.cursor) ?? Number.MAX_SAFE_INTEGER;
		const rows =
			options.batchId === undefined
				? this.#sql.all<GroupRow>(
						"SELECT * FROM groups WHERE position < ? ORDER BY position DESC LIMIT ?",
						before,
						options.limit + 1,
					)
				: this.#sql.all<GroupRow>(
						"SELECT * FROM groups WHERE batch_id = ? AND position < ? ORDER BY position DESC LIMIT ?",
						options.batchId,
						before,
						options.limit + 1,
					);
		return toPage(rows, options.limit, toGroup);
	}

	batch(id: string | null): Batch | null {
		if (id === null) return null;
		const row = this.#sql.get<BatchRow>("SELECT * FROM batches WHERE id = ?", id);
		return row ? toBatch(row) : null;
	}

	listBatches(options: { cursor?: string; limit: number }): Page<Batch> {
		const rows = this.#sql.all<BatchRow>(
			"SELECT * FROM batches WHERE position < ? ORDER BY position DESC LIMIT ?",
			readCursor(options.cursor) ?? Number.MAX_SAFE_INTEGER,
			options.limit + 1,
		);
		return toPage(rows, options.limit, toBatch);
	}

	events(id: string, options: { after: number; limit: number }): RolloutEvent[] {
		const rows = this.#sql.all<EventRow>(
			`SELECT seq, at, body FROM events
			WHERE rollout = (SELECT position FROM rollouts WHERE id = ?) AND seq > ? ORDER BY seq LIMIT ?`,
			id,
			options.after,
			options.limit,
		);
		return rows.map((row) => toEvent(id, row));
	}

	hasCommands(id: string): boolean {
		return this.#sql.get("SELECT 1 FROM commands WHERE rollout_id = ? LIMIT 1", id) !== undefined;
	}

	isSubmitted(idempotencyKey: string): boolean {
		return this.#sql.get("SELECT 1 FROM submissions WHERE key = ?", idempotencyKey) !== undefined;
	}

	sealed(id: string): Uint8Array | null {
		const row = this.#sql.get<{ sealed: Uint8Array }>("SELECT sealed FROM secrets WHERE rollout_id = ?", id);
		return row?.sealed ?? null;
	}

	revision(id: string): number | null {
		const row = this.#sql.get<{ revision: number }>("SELECT revision FROM rollouts WHERE id = ?", id);
		return row?.revision ?? null;
	}

	/** Differs from the last answer when any other connection, in any process, has committed since. */
	dataVersion(): number {
		return this.#sql.get<{ data_version: number }>("PRAGMA data_version")!.data_version;
	}
}
