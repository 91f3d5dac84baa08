import type { EventBody } from "../../model/event.ts";
import type { Failure, Outcome } from "../../model/failure.ts";
import type { RolloutStatus } from "../../model/rollout.ts";
import type { AbortHit, AbortTarget, RolloutEnd, RolloutPatch } from "../store.ts";
import type { StoredSubmission, Submitted } from "../submission.ts";
import type { Statements } from "./statements.ts";
import { submit } from "./submit.ts";

const ABORTED: RolloutEnd = { outcome: "aborted", reward: null, failure: null, summary: null };

interface Head {
	position: number;
	id: string;
	status: RolloutStatus;
	attempt: number;
	last_seq: number;
	abort_requested: number;
}

/**
 * Every change of the embedded store. Each method runs inside a transaction of the writer thread, takes and returns
 * plain data, and names the rollouts it touched.
 */
export class SqliteWrites {
	readonly #sql: Statements;
	readonly #touched = new Set<string>();

	constructor(sql: Statements) {
		this.#sql = sql;
	}

	/** The rollouts changed since the last call, with their revisions. */
	takeTouched(): [string, number][] {
		const touched = [...this.#touched].map((id): [string, number] => {
			const row = this.#sql.get<{ revision: number }>("SELECT revision FROM rollouts WHERE id = ?", id);
			return [id, row?.revision ?? 0];
		});
		this.#touched.clear();
		return touched;
	}

	submit(submission: StoredSubmission): Submitted {
		return submit(this.#sql, submission);
	}

	begin(id: string, worker: string, at: number): number | null {
		const head = this.#head(id);
		if (!head || head.status === "done") return null;
		if (head.abort_requested) {
			this.#end(head, ABORTED, at);
			return null;
		}
		const attempt = head.attempt + 1;
		this.#sql.run(
			`UPDATE rollouts SET attempt = ?, status = 'running', phase = 'create', worker = ?, started_at = ?,
				sandbox_id = NULL, session_id = NULL, calls = 0, prompt_tokens = 0, completion_tokens = 0
			WHERE position = ?`,
			attempt,
			worker,
			at,
			head.position,
		);
		this.#appendTo(head, [{ type: "rollout-start", attempt, worker }], at);
		return attempt;
	}

	patch(id: string, attempt: number, patch: RolloutPatch): boolean {
		const changed = this.#sql.run(
			`UPDATE rollouts SET revision = revision + 1, phase = coalesce(?, phase), sandbox_id = coalesce(?, sandbox_id),
				session_id = coalesce(?, session_id), calls = coalesce(?, calls),
				prompt_tokens = coalesce(?, prompt_tokens), completion_tokens = coalesce(?, completion_tokens)
			WHERE id = ? AND attempt = ? AND status = 'running'`,
			patch.phase ?? null,
			patch.sandboxId ?? null,
			patch.sessionId ?? null,
			patch.calls ?? null,
			patch.promptTokens ?? null,
			patch.completionTokens ?? null,
			id,
			attempt,
		);
		if (changed > 0) this.#touched.add(id);
		return changed > 0;
	}

	requeue(id: string, attempt: number, failure: Failure, handedBack: boolean, at: number): boolean {
		const head = this.#head(id);
		if (head?.status !== "running" || head.attempt !== attempt) return false;
		this.#appendTo(head, [{ type: "attempt-failed", attempt, failure }], at);
		if (head.abort_requested) {
			this.#end(head, ABORTED, at);
			return true;
		}
		this.#sql.run(
			`UPDATE rollouts SET status = 'queued', phase = 'queued', worker = NULL, handed_back = handed_back + ?
			WHERE position = ?`,
			handedBack ? 1 : 0,
			head.position,
		);
		return true;
	}

	finish(id: string, attempt: number, end: RolloutEnd, at: number): boolean {
		const head = this.#head(id);
		if (!head || head.status === "done" || head.attempt !== attempt) return false;
		this.#end(head, end, at);
		return true;
	}

	requestAbort(target: AbortTarget, at: number): AbortHit[] {
		return this.#targets(target).map((head) => {
			const { id, attempt, status } = head;
			this.#sql.run(
				"UPDATE rollouts SET abort_requested = 1, revision = revision + 1 WHERE position = ?",
				head.position,
			);
			this.#touched.add(head.id);
			if (status === "queued") this.#end(head, ABORTED, at);
			return { id, attempt, ended: status === "queued" };
		});
	}

	/** The sequence number of the first event, or 0 when refused. */
	append(id: string, attempt: number, events: EventBody[], at: number): number {
		const head = this.#head(id);
		if (head?.status !== "running" || head.attempt !== attempt) return 0;
		const first = head.last_seq + 1;
		this.#appendTo(head, events, at);
		return first;
	}

	post(id: string, command: string): boolean {
		const changed = this.#sql.run(
			"UPDATE rollouts SET revision = revision + 1 WHERE id = ? AND status <> 'done'",
			id,
		);
		if (changed === 0) return false;
		this.#sql.run("INSERT INTO commands (rollout_id, body) VALUES (?, ?)", id, command);
		this.#touched.add(id);
		return true;
	}

	takeCommands(id: string): string[] {
		const rows = this.#sql.all<{ body: string }>(
			"SELECT body FROM commands WHERE rollout_id = ? ORDER BY position",
			id,
		);
		this.#sql.run("DELETE FROM commands WHERE rollout_id = ?", id);
		return rows.map((row) => row.body);
	}

	#head(id: string): Head | undefined {
		return this.#sql.get<Head>(
			"SELECT position, id, status, attempt, last_seq, abort_requested FROM rollouts WHERE id = ?",
			id,
		);
	}

	#targets(target: AbortTarget): Head[] {
		const select = "SELECT position, id, status, attempt, last_seq, abort_requested FROM rollouts";
		const open = "status <> 'done' ORDER BY position";
		if ("id" in target) return this.#sql.all(`${select} WHERE id = ? AND ${open}`, target.id);
		if ("groupId" in target) return this.#sql.all(`${select} WHERE group_id = ? AND ${open}`, target.groupId);
		return this.#sql.all(`${select} WHERE batch_id = ? AND ${open}`, target.batchId);
	}

	#end(head: Head, end: RolloutEnd, at: number): void {
		const { outcome, reward, failure } = end;
		this.#appendTo(head, [{ type: "rollout-end", outcome, reward, failure, attempt: head.attempt }], at);
		this.#sql.run(
			`UPDATE rollouts SET status = 'done', phase = 'done', finished_at = ?, outcome = ?, reward = ?, failure = ?
			WHERE position = ?`,
			at,
			outcome satisfies Outcome,
			reward,
			failure === null ? null : JSON.stringify(failure),
			head.position,
		);
		if (end.summary !== null) {
			const summary = JSON.stringify(end.summary);
			this.#sql.run("UPDATE rollout_bodies SET summary = ? WHERE position = ?", summary, head.position);
		}
		this.#sql.run("DELETE FROM secrets WHERE rollout_id = ?", head.id);
		this.#sql.run("DELETE FROM commands WHERE rollout_id = ?", head.id);
	}

	#appendTo(head: { position: number; id: string; last_seq: number }, events: EventBody[], at: number): void {
		for (const event of events) {
			head.last_seq += 1;
			this.#sql.run(
				"INSERT INTO events (rollout, seq, at, body) VALUES (?, ?, ?, ?)",
				head.position,
				head.last_seq,
				at,
				JSON.stringify(event),
			);
		}
		this.#sql.run(
			"UPDATE rollouts SET last_seq = ?, revision = revision + 1 WHERE position = ?",
			head.last_seq,
			head.position,
		);
		this.#touched.add(head.id);
	}
}
