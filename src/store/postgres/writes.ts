import type pg from "pg";
import type { EventBody } from "../../model/event.ts";
import type { Failure } from "../../model/failure.ts";
import type { Rollout } from "../../model/rollout.ts";
import { GroupCommit } from "../bytes/group-commit.ts";
import type { AbortHit, AbortTarget, RolloutEnd, RolloutPatch } from "../store.ts";
import type { StoredSubmission, Submitted } from "../submission.ts";
import { Change, EventRows, type Head, lock } from "./change.ts";
import { transact } from "./connection.ts";
import { PostgresReads } from "./reads.ts";
import { submit } from "./submit.ts";

interface Append {
	id: string;
	attempt: number;
	bodies: string[];
	at: number;
}

const ABORTED: RolloutEnd = { outcome: "aborted", reward: null, failure: null, summary: null };

/**
 * Every change of the PostgreSQL store. A change locks its rollouts first, always in order of position, so that
 * changes wait for each other and never deadlock; then it decides on what it sees.
 */
export class PostgresWrites {
	readonly #pool: pg.Pool;
	readonly #channel: string;
	readonly #onTouched: (id: string, revision: number) => void;
	readonly #appends = new GroupCommit((appends: Append[]) => this.#appendAll(appends));

	constructor(pool: pg.Pool, channel: string, onTouched: (id: string, revision: number) => void) {
		this.#pool = pool;
		this.#channel = channel;
		this.#onTouched = onTouched;
	}

	submit(submission: StoredSubmission): Promise<Submitted> {
		return transact(this.#pool, (client) => submit(client, submission));
	}

	/** Read in the same transaction: were that to fail alone, an attempt would be counted that nobody makes. */
	begin(id: string, worker: string): Promise<Rollout | null> {
		return this.#change({ id }, async (change, [head]) => {
			if (!head || head.status === "done") return null;
			if (head.abort_requested) {
				await change.end([head], ABORTED);
				return null;
			}
			const attempt = head.attempt + 1;
			await change.client.query(
				`UPDATE rollouts SET attempt = $2, status = 'running', phase = 'create', worker = $3, started_at = $4,
					sandbox_id = NULL, session_id = NULL, calls = 0, prompt_tokens = 0, completion_tokens = 0
				WHERE position = $1`,
				[head.position, attempt, worker, change.at],
			);
			await change.append([head], () => ({ type: "rollout-start", attempt, worker }));
			return await new PostgresReads(change.client).get(id);
		});
	}

	async patch(id: string, attempt: number, patch: RolloutPatch): Promise<boolean> {
		const { rows } = await this.#pool.query<{ revision: number }>(
			`WITH changed AS (
				UPDATE rollouts SET revision = revision + 1, phase = coalesce($3, phase),
					sandbox_id = coalesce($4, sandbox_id), session_id = coalesce($5, session_id),
					calls = coalesce($6, calls), prompt_tokens = coalesce($7, prompt_tokens),
					completion_tokens = coalesce($8, completion_tokens)
				WHERE id = $1 AND attempt = $2 AND status = 'running' RETURNING id, revision
			) SELECT revision, pg_notify($9, id || ' ' || revision) FROM changed`,
			[
				id,
				attempt,
				patch.phase ?? null,
				patch.sandboxId ?? null,
				patch.sessionId ?? null,
				patch.calls ?? null,
				patch.promptTokens ?? null,
				patch.completionTokens ?? null,
				this.#channel,
			],
		);
		for (const row of rows) this.#onTouched(id, row.revision);
		return rows.length > 0;
	}

	requeue(id: string, attempt: number, failure: Failure, handedBack: boolean): Promise<boolean> {
		return this.#change({ id }, async (change, [head]) => {
			if (head?.status !== "running" || head.attempt !== attempt) return false;
			await change.append([head], () => ({ type: "attempt-failed", attempt, failure }));
			if (head.abort_requested) {
				await change.end([head], ABORTED);
				return true;
			}
			await change.client.query(
				`UPDATE rollouts SET status = 'queued', phase = 'queued', worker = NULL, handed_back = handed_back + $2
				WHERE position = $1`,
				[head.position, handedBack ? 1 : 0],
			);
			return true;
		});
	}

	finish(id: string, attempt: number, end: RolloutEnd): Promise<boolean> {
		return this.#change({ id }, async (change, [head]) => {
			if (!head || head.status === "done" || head.attempt !== attempt) return false;
			await change.end([head], end);
			return true;
		});
	}

	requestAbort(target: AbortTarget): Promise<AbortHit[]> {
		return this.#change(target, async (change, heads) => {
			const open = heads.filter((head) => head.status !== "done");
			await change.client.query("UPDATE rollouts SET abort_requested = true WHERE position = ANY($1)", [
				open.map((head) => head.position),
			]);
			const isQueued = (head: Head) => head.status === "queued";
			await change.end(open.filter(isQueued), ABORTED);
			await change.append(
				open.filter((head) => !isQueued(head)),
				() => null,
			);
			return open.map(({ id, status, attempt }) => ({ id, attempt, ended: status === "queued" }));
		});
	}

	/** The sequence number of the first event, or 0 when refused. */
	append(id: string, attempt: number, events: EventBody[], at: number): Promise<number> {
		return this.#appends.add({ id, attempt, at, bodies: events.map((event) => JSON.stringify(event)) });
	}

	post(id: string, command: string): Promise<boolean> {
		return this.#change({ id }, async (change, [head]) => {
			if (!head || head.status === "done") return false;
			await change.client.query("INSERT INTO commands (rollout_id, body) VALUES ($1, $2)", [id, command]);
			await change.append([head], () => null);
			return true;
		});
	}

	/** One taker at a time, so that each command goes to one of them. */
	takeCommands(id: string): Promise<string[]> {
		return transact(this.#pool, async (client) => {
			await client.query("SELECT 1 FROM rollouts WHERE id = $1 FOR UPDATE", [id]);
			const { rows } = await client.query<{ body: string }>(
				`WITH taken AS (DELETE FROM commands WHERE rollout_id = $1 RETURNING position, body)
				SELECT body FROM taken ORDER BY position`,
				[id],
			);
			return rows.map((row) => row.body);
		});
	}

	settled(): Promise<void> {
		return this.#appends.settled();
	}

	async #change<T>(target: AbortTarget, decide: (change: Change, heads: Head[]) => Promise<T>): Promise<T> {
		const change = await transact(this.#pool, async (client) => {
			const changing = new Change(client, this.#channel);
			const result = await decide(changing, await lock(client, target));
			return { result, touched: changing.touched };
		});
		for (const [id, revision] of change.touched) this.#onTouched(id, revision);
		return change.result;
	}

	async #appendAll(appends: Append[]): Promise<number[]> {
		const { firsts, touched } = await transact(this.#pool, async (client) => {
			const { rows } = await client.query<Head>(
				`SELECT position, id, status, attempt, last_seq FROM rollouts WHERE id = ANY($1) ORDER BY position FOR UPDATE`,
				[[...new Set(appends.map((append) => append.id))]],
			);
			const heads = new Map(rows.map((head) => [head.id, head]));
			const events = new EventRows();
			const firsts = appends.map(({ id, attempt, bodies, at }) => {
				const head = heads.get(id);
				if (head?.status !== "running" || head.attempt !== attempt) return 0;
				return events.add(head, bodies, at);
			});
			return { firsts, touched: await events.write(client, this.#channel) };
		});
		for (const [id, revision] of touched) this.#onTouched(id, revision);
		return firsts;
	}
}
