import type { Command } from "../model/command.ts";
import type { ConversationRow } from "../model/conversation.ts";
import type { RolloutEvent } from "../model/event.ts";
import type { Kind } from "../model/id.ts";
import type { Batch, Group, Rollout, RolloutRow } from "../model/rollout.ts";
import type { Sql } from "./database.ts";
import { summarize } from "./group-summary.ts";
import { readCursor, toPage } from "./page.ts";
import {
	type BatchRow,
	type EventRow,
	type GroupRow,
	type RolloutColumns,
	toBatch,
	toConversation,
	toEvent,
	toGroup,
	toRollout,
	toRow,
	type WholeColumns,
} from "./rows.ts";
import type { GroupSummary, Page, PostedCommand } from "./store.ts";

interface Counts {
	queued: number;
	running: number;
	done: number;
}

interface PageOptions {
	cursor?: string | undefined;
	limit: number;
}

/** Every question that both databases are asked in the same words. */
export class Reads {
	readonly #sql: Sql;

	constructor(sql: Sql) {
		this.#sql = sql;
	}

	async get(id: string): Promise<Rollout | null> {
		const row = await this.#first<WholeColumns>(
			`SELECT r.*, b.terms, b.summary, t.body AS task FROM rollouts r
			JOIN rollout_bodies b ON b.position = r.position JOIN tasks t ON t.hash = b.task_hash WHERE r.id = ?`,
			id,
		);
		return row ? toRollout(row) : null;
	}

	async row(id: string): Promise<RolloutRow | null> {
		const row = await this.#first<RolloutColumns>(
			"SELECT r.*, b.terms FROM rollouts r JOIN rollout_bodies b ON b.position = r.position WHERE r.id = ?",
			id,
		);
		return row ? toRow(row) : null;
	}

	async attempt(id: string): Promise<number | null> {
		const row = await this.#first<{ attempt: number }>("SELECT attempt FROM rollouts WHERE id = ?", id);
		return row?.attempt ?? null;
	}

	async counts(kind?: Kind): Promise<Counts> {
		const all = kind === "conversation" ? { queued: 0, running: 0, done: 0 } : await this.#count("");
		if (kind === undefined) return all;
		// Few, and found by an index of their own; to count rollouts alone would be to read every row.
		const conversations = await this.#count("WHERE kind = 'conversation'");
		if (kind === "conversation") return conversations;
		for (const status of ["queued", "running", "done"] as const) all[status] -= conversations[status];
		return all;
	}

	async #count(where: string): Promise<Counts> {
		const counts = { queued: 0, running: 0, done: 0 };
		const rows = await this.#sql.all<{ status: keyof Counts; count: number }>(
			`SELECT status, count(*) AS count FROM rollouts ${where} GROUP BY status`,
		);
		for (const row of rows) counts[row.status] = row.count;
		return counts;
	}

	async conversation(id: string): Promise<ConversationRow | null> {
		const row = await this.#first<RolloutColumns>(
			"SELECT r.*, b.terms FROM rollouts r JOIN rollout_bodies b ON b.position = r.position WHERE r.id = ?",
			id,
		);
		return row?.kind === "conversation" ? toConversation(row) : null;
	}

	async group(id: string): Promise<GroupSummary | null> {
		const group = await this.plainGroup(id);
		if (!group) return null;
		const rollouts = await this.#sql.all<GroupSummary["rollouts"][number]>(
			"SELECT id, status, outcome, reward FROM rollouts WHERE group_id = ? ORDER BY position",
			id,
		);
		return summarize(
			group,
			rollouts.map((rollout) => ({ ...rollout })),
		);
	}

	async plainGroup(id: string): Promise<Group | null> {
		const row = await this.#first<GroupRow>("SELECT * FROM groups WHERE id = ?", id);
		return row ? toGroup(row) : null;
	}

	async listGroups(options: PageOptions & { batchId?: string | undefined }): Promise<Page<Group>> {
		const before = readCursor(options.cursor) ?? Number.MAX_SAFE_INTEGER;
		const { batchId, limit } = options;
		const [where, values] = batchId === undefined ? ["", []] : ["batch_id = ? AND", [batchId]];
		const rows = await this.#sql.all<GroupRow>(
			`SELECT * FROM groups WHERE ${where} position < ? ORDER BY position DESC LIMIT ?`,
			...values,
			before,
			limit + 1,
		);
		return toPage(rows, limit, toGroup);
	}

	async batch(id: string): Promise<Batch | null> {
		const row = await this.#first<BatchRow>("SELECT * FROM batches WHERE id = ?", id);
		return row ? toBatch(row) : null;
	}

	async listBatches(options: PageOptions): Promise<Page<Batch>> {
		const rows = await this.#sql.all<BatchRow>(
			"SELECT * FROM batches WHERE position < ? ORDER BY position DESC LIMIT ?",
			readCursor(options.cursor) ?? Number.MAX_SAFE_INTEGER,
			options.limit + 1,
		);
		return toPage(rows, options.limit, toBatch);
	}

	async events(id: string, options: { after: number; limit: number }): Promise<RolloutEvent[]> {
		const rows = await this.#sql.all<EventRow>(
			`SELECT seq, at, body FROM events
			WHERE rollout = (SELECT position FROM rollouts WHERE id = ?) AND seq > CAST(? AS bigint) ORDER BY seq LIMIT ?`,
			id,
			options.after,
			options.limit,
		);
		return rows.map((row) => toEvent(id, row));
	}

	async commands(id: string, attempt: number): Promise<PostedCommand[]> {
		const rows = await this.#sql.all<{ position: number; body: string }>(
			`SELECT c.position, c.body FROM commands c JOIN rollouts r ON r.id = c.rollout_id
			WHERE c.rollout_id = ? AND r.attempt = ? ORDER BY c.position`,
			id,
			attempt,
		);
		return rows.map(({ position, body }) => ({
			number: position,
			command: JSON.parse(body) as Command,
		}));
	}

	async isSubmitted(idempotencyKey: string): Promise<boolean> {
		return (await this.#first("SELECT 1 FROM submissions WHERE key = ?", idempotencyKey)) !== undefined;
	}

	async sealed(id: string): Promise<Uint8Array | null> {
		const row = await this.#first<{ sealed: Uint8Array }>(
			"SELECT sealed FROM secrets WHERE rollout_id = ?",
			id,
		);
		return row?.sealed ?? null;
	}

	async #first<Row extends object>(sql: string, value: string): Promise<Row | undefined> {
		return (await this.#sql.all<Row>(sql, value))[0];
	}
}
