import type pg from "pg";
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

interface ListOptions {
	cursor?: string;
	limit: number;
	order?: "newest" | "oldest";
}

/** Every question the PostgreSQL store can answer. */
export class PostgresReads {
	readonly #pool: Pick<pg.Pool, "query">;

	/** A pool, or the client of a transaction that wants to read its own changes. */
	constructor(pool: Pick<pg.Pool, "query">) {
		this.#pool = pool;
	}

	async get(id: string): Promise<Rollout | null> {
		const rows = await this.#rows<WholeColumns>(
			`SELECT r.*, b.terms, b.summary, t.body AS task FROM rollouts r
			JOIN rollout_bodies b ON b.position = r.position JOIN tasks t ON t.hash = b.task_hash WHERE r.id = $1`,
			[id],
		);
		return rows[0] ? toRollout(rows[0]) : null;
	}

	async row(id: string): Promise<RolloutRow | null> {
		return (await this.some([id]))[0] ?? null;
	}

	async attempt(id: string): Promise<number | null> {
		const rows = await this.#rows<{ attempt: number }>("SELECT attempt FROM rollouts WHERE id = $1", [id]);
		return rows[0]?.attempt ?? null;
	}

	/** In the order asked for; unknown ids are left out. */
	async some(ids: string[]): Promise<RolloutRow[]> {
		const rows = await this.#rows<RolloutColumns>(
			`SELECT r.*, b.terms FROM unnest($1::text[]) WITH ORDINALITY AS asked (id, place)
			JOIN rollouts r ON r.id = asked.id JOIN rollout_bodies b ON b.position = r.position ORDER BY asked.place`,
			[ids],
		);
		return rows.map(toRow);
	}

	async list(filter: RolloutFilter, options: ListOptions): Promise<Page<RolloutRow>> {
		const cursor = readCursor(options.cursor);
		const oldest = options.order === "oldest";
		const values: unknown[] = [];
		const conditions: string[] = [];
		const where = (condition: (place: string) => string, value: string | number | null | undefined) => {
			if (value === null || value === undefined) return;
			conditions.push(condition(`$${values.push(value)}`));
		};
		where((place) => `r.status = ${place}`, filter.status);
		where((place) => `r.outcome = ${place}`, filter.outcome);
		where((place) => `r.task_id = ${place}`, filter.taskId);
		where((place) => `r.group_id = ${place}`, filter.groupId);
		where((place) => `r.batch_id = ${place}`, filter.batchId);
		where((place) => `r.position ${oldest ? ">" : "<"} ${place}`, cursor);
		where((place) => `l.name = ${place}`, filter.label?.name);
		where((place) => `l.value = ${place}`, filter.label?.value);
		const from = filter.label ? "rollouts r JOIN labels l ON l.position = r.position" : "rollouts r";
		const direction = oldest ? "ASC" : "DESC";
		const rows = await this.#rows<RolloutColumns>(
			`SELECT r.*, b.terms FROM (
				SELECT r.* FROM ${from} ${conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : ""}
				ORDER BY r.position ${direction} LIMIT $${values.push(options.limit + 1)}
			) r JOIN rollout_bodies b ON b.position = r.position ORDER BY r.position ${direction}`,
			values,
		);
		return toPage(rows, options.limit, toRow);
	}

	async counts(): Promise<{ queued: number; running: number; done: number }> {
		const counts = { queued: 0, running: 0, done: 0 };
		const rows = await this.#rows<{ status: keyof typeof counts; count: number }>(
			"SELECT status, count(*) AS count FROM rollouts GROUP BY status",
		);
		for (const row of rows) counts[row.status] = row.count;
		return counts;
	}

	async group(id: string): Promise<GroupSummary | null> {
		const group = await this.plainGroup(id);
		if (!group) return null;
		const rollouts = await this.#rows<GroupSummary["rollouts"][number]>(
			"SELECT id, status, outcome, reward FROM rollouts WHERE group_id = $1 ORDER BY position",
			[id],
		);
		return summarize(group, rollouts);
	}

	async plainGroup(id: string | null): Promise<Group | null> {
		const rows = await this.#rows<GroupRow>("SELECT * FROM groups WHERE id = $1", [id]);
		return rows[0] ? toGroup(rows[0]) : null;
	}

	async listGroups(options: { batchId?: string; cursor?: string; limit: number }): Promise<Page<Group>> {
		const before = readCursor(options.cursor) ?? Number.MAX_SAFE_INTEGER;
		const values = [before, options.limit + 1, ...(options.batchId === undefined ? [] : [options.batchId])];
		const rows = await this.#rows<GroupRow>(
			`SELECT * FROM groups WHERE position < $1 ${options.batchId === undefined ? "" : "AND batch_id = $3"}
			ORDER BY position DESC LIMIT $2`,
			values,
		);
		return toPage(rows, options.limit, toGroup);
	}

	async batch(id: string | null): Promise<Batch | null> {
		const rows = await this.#rows<BatchRow>("SELECT * FROM batches WHERE id = $1", [id]);
		return rows[0] ? toBatch(rows[0]) : null;
	}

	async listBatches(options: { cursor?: string; limit: number }): Promise<Page<Batch>> {
		const rows = await this.#rows<BatchRow>(
			"SELECT * FROM batches WHERE position < $1 ORDER BY position DESC LIMIT $2",
			[readCursor(options.cursor) ?? Number.MAX_SAFE_INTEGER, options.limit + 1],
		);
		return toPage(rows, options.limit, toBatch);
	}

	async events(id: string, options: { after: number; limit: number }): Promise<RolloutEvent[]> {
		const rows = await this.#rows<EventRow>(
			`SELECT seq, at, body FROM events
			WHERE rollout = (SELECT position FROM rollouts WHERE id = $1) AND seq > $2::bigint ORDER BY seq LIMIT $3`,
			[id, options.after, options.limit],
		);
		return rows.map((row) => toEvent(id, row));
	}

	async hasCommands(id: string): Promise<boolean> {
		return (await this.#rows("SELECT 1 FROM commands WHERE rollout_id = $1 LIMIT 1", [id])).length > 0;
	}

	async isSubmitted(idempotencyKey: string): Promise<boolean> {
		return (await this.#rows("SELECT 1 FROM submissions WHERE key = $1", [idempotencyKey])).length > 0;
	}

	async sealed(id: string): Promise<Uint8Array | null> {
		const rows = await this.#rows<{ sealed: Buffer }>("SELECT sealed FROM secrets WHERE rollout_id = $1", [
			id,
		]);
		return rows[0]?.sealed ?? null;
	}

	async #rows<Row extends object>(sql: string, values: unknown[] = []): Promise<Row[]> {
		return (await this.#pool.query<Row>(sql, values)).rows;
	}
}
