import type pg from "pg";
import type { EventBody } from "../../model/event.ts";
import type { RolloutStatus } from "../../model/rollout.ts";
import type { AbortTarget, RolloutEnd } from "../store.ts";

export interface Head {
	position: number;
	id: string;
	status: RolloutStatus;
	attempt: number;
	last_seq: number;
	abort_requested: boolean;
}

/** In order of position: two changes of many rollouts wait for each other and never deadlock. */
export async function lock(client: pg.PoolClient, target: AbortTarget): Promise<Head[]> {
	const [column, value] =
		"id" in target
			? ["id", target.id]
			: "groupId" in target
				? ["group_id", target.groupId]
				: ["batch_id", target.batchId];
	const { rows } = await client.query<Head>(
		`SELECT position, id, status, attempt, last_seq, abort_requested FROM rollouts
		WHERE ${column} = $1 ORDER BY position FOR UPDATE`,
		[value],
	);
	return rows;
}

/** One transaction on locked rollouts. */
export class Change {
	readonly client: pg.PoolClient;
	readonly at = Date.now();
	readonly touched: [string, number][] = [];
	readonly #channel: string;

	constructor(client: pg.PoolClient, channel: string) {
		this.client = client;
		this.#channel = channel;
	}

	/** Without an event: only lets the watchers know. */
	async append(heads: Head[], toEvent: (head: Head) => EventBody | null): Promise<void> {
		const rows = new EventRows();
		for (const head of heads) {
			const event = toEvent(head);
			rows.add(head, event === null ? [] : [JSON.stringify(event)], this.at);
		}
		this.touched.push(...(await rows.write(this.client, this.#channel)));
	}

	/** In as many steps for thousands as for one. */
	async end(heads: Head[], end: RolloutEnd): Promise<void> {
		if (heads.length === 0) return;
		const { outcome, reward, failure, summary } = end;
		const positions = heads.map((head) => head.position);
		await this.append(heads, ({ attempt }) => ({ type: "rollout-end", outcome, reward, failure, attempt }));
		await this.client.query(
			`UPDATE rollouts SET status = 'done', phase = 'done', finished_at = $2, outcome = $3, reward = $4, failure = $5
			WHERE position = ANY($1)`,
			[positions, this.at, outcome, reward, failure === null ? null : JSON.stringify(failure)],
		);
		if (summary !== null) {
			const text = JSON.stringify(summary);
			await this.client.query("UPDATE rollout_bodies SET summary = $2 WHERE position = ANY($1)", [
				positions,
				text,
			]);
		}
		const ids = heads.map((head) => head.id);
		await this.client.query("DELETE FROM secrets WHERE rollout_id = ANY($1)", [ids]);
		await this.client.query("DELETE FROM commands WHERE rollout_id = ANY($1)", [ids]);
	}
}

/** Events of one transaction, numbered as they come and written together. */
export class EventRows {
	readonly #heads = new Map<number, Head>();
	readonly #rollouts: number[] = [];
	readonly #seqs: number[] = [];
	readonly #ats: number[] = [];
	readonly #bodies: string[] = [];

	add(head: Head, bodies: string[], at: number): number {
		const first = head.last_seq + 1;
		this.#heads.set(head.position, head);
		for (const body of bodies) {
			head.last_seq += 1;
			this.#rollouts.push(head.position);
			this.#seqs.push(head.last_seq);
			this.#ats.push(at);
			this.#bodies.push(body);
		}
		return first;
	}

	/** The rollouts touched, with their new revisions. */
	async write(client: pg.PoolClient, channel: string): Promise<[string, number][]> {
		const heads = [...this.#heads.values()];
		if (heads.length === 0) return [];
		if (this.#bodies.length > 0) {
			await client.query(
				`INSERT INTO events (rollout, seq, at, body)
				SELECT * FROM unnest($1::bigint[], $2::integer[], $3::double precision[], $4::text[])`,
				[this.#rollouts, this.#seqs, this.#ats, this.#bodies],
			);
		}
		const { rows } = await client.query<{ id: string; revision: number }>(
			`WITH changed AS (
				UPDATE rollouts SET last_seq = given.seq, revision = revision + 1
				FROM unnest($1::bigint[], $2::integer[]) AS given (position, seq)
				WHERE rollouts.position = given.position RETURNING id, revision
			) SELECT id, revision, pg_notify($3, id || ' ' || revision) FROM changed`,
			[heads.map((head) => head.position), heads.map((head) => head.last_seq), channel],
		);
		return rows.map((row) => [row.id, row.revision]);
	}
}
