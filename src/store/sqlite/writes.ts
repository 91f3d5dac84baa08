import type { SQLInputValue } from "node:sqlite";
import type { Changed } from "../announcer.ts";
import { type CredentialDecision, type CredentialStep, decide } from "../credential-steps.ts";
import { keyName } from "../credentials.ts";
import { decideKept, type KeptAgentDecision, type KeptAgentStep } from "../kept-agent-steps.ts";
import { agentKeyName } from "../kept-agents.ts";
import { type CredentialColumns, type KeptAgentColumns, toCredentialRow, toKeptAgentRow } from "../rows.ts";
import type { AbortTarget } from "../store.ts";
import type { StoredSubmission, Submitted } from "../submission.ts";
import { type Change, change, dueFor, HEAD, type Head, type Step } from "../transitions.ts";
import type { Statements } from "./statements.ts";
import { submit } from "./submit.ts";

/**
 * Every change of the embedded store. Each method runs inside a transaction of the writer thread, and takes and returns
 * plain data.
 */
export class SqliteWrites {
	readonly #sql: Statements;

	constructor(sql: Statements) {
		this.#sql = sql;
	}

	submit(submission: StoredSubmission): Submitted {
		return submit(this.#sql, submission);
	}

	change(target: AbortTarget, step: Step, at: number): Changed[] {
		return this.#heads(target, dueFor(step)).flatMap((head) => {
			const changed = change(head, step, at);
			return changed === null ? [] : this.#write(changed, at);
		});
	}

	dropCommands(id: string, attempt: number, through: number): void {
		this.#sql.run(
			`DELETE FROM commands WHERE rollout_id = ?1 AND position <= ?3
				AND EXISTS (SELECT 1 FROM rollouts WHERE id = ?1 AND attempt = ?2)`,
			id,
			attempt,
			through,
		);
	}

	changeCredential(label: string, step: CredentialStep, now: number): CredentialDecision {
		const found = this.#sql.get<CredentialColumns>("SELECT * FROM credentials WHERE label = ?", label);
		const decision = decide(found ? toCredentialRow(found) : null, step, now);
		if ("refused" in decision) return decision;
		this.#sql.run("DELETE FROM credentials WHERE label = ?", label);
		const { row } = decision;
		if (row) {
			const insert = "INSERT INTO credentials (label, id, record, sealed) VALUES (?, ?, ?, ?)";
			this.#sql.run(insert, label, row.id, JSON.stringify(row.record), row.sealed);
		} else this.#sql.run("DELETE FROM vault_keys WHERE name = ?", keyName(found!.id));
		return decision;
	}

	/** With the revision that whoever watches the agent has to be told. */
	changeAgent(
		name: string,
		step: KeptAgentStep,
		now: number,
	): { decision: KeptAgentDecision; id: string | null; revision: number } {
		const found = this.#sql.get<KeptAgentColumns>("SELECT * FROM kept_agents WHERE name = ?", name);
		const decision = decideKept(found ? toKeptAgentRow(found) : null, step, now);
		if ("refused" in decision) return { decision, id: null, revision: 0 };
		this.#sql.run("DELETE FROM kept_agents WHERE name = ?", name);
		const { row } = decision;
		if (row) {
			const insert = "INSERT INTO kept_agents (name, id, record, sealed, revision) VALUES (?, ?, ?, ?, ?)";
			this.#sql.run(insert, name, row.id, JSON.stringify(row.record), row.sealed, row.revision);
			return { decision, id: row.id, revision: row.revision };
		}
		this.#sql.run("DELETE FROM vault_keys WHERE name = ?", agentKeyName(found!.id));
		return { decision, id: found!.id, revision: found!.revision + 1 };
	}

	#heads(target: AbortTarget, due: string): Head[] {
		const select = (column: string, value: string) =>
			this.#sql.all<Head>(
				`SELECT ${HEAD} FROM rollouts WHERE ${column} = ? AND ${due} ORDER BY position`,
				value,
			);
		if ("id" in target) return select("id", target.id);
		return "groupId" in target ? select("group_id", target.groupId) : select("batch_id", target.batchId);
	}

	#write({ head, transition, events }: Change, at: number): Changed {
		const { position, id, status, attempt, last_seq } = head;
		transition.events.forEach((event, index) => {
			const seq = events[index]!.seq;
			const insert = "INSERT INTO events (rollout, seq, at, body) VALUES (?, ?, ?, ?)";
			this.#sql.run(insert, position, seq, at, JSON.stringify(event));
		});
		const set = Object.entries({ ...transition.set, last_seq });
		const row = this.#sql.get<{ revision: number }>(
			`UPDATE rollouts SET ${set.map(([column]) => `${column} = ?, `).join("")} revision = revision + 1
			WHERE position = ? RETURNING revision`,
			...set.map(([, value]) => toSql(value)),
			position,
		);
		if (transition.summary !== undefined) {
			const keep = "UPDATE rollout_bodies SET summary = ? WHERE position = ?";
			this.#sql.run(keep, transition.summary, position);
		}
		if (transition.command !== undefined) {
			this.#sql.run("INSERT INTO commands (rollout_id, body) VALUES (?, ?)", id, transition.command);
		}
		if (transition.sealed !== undefined) {
			this.#sql.run("INSERT INTO secrets (rollout_id, sealed) VALUES (?, ?)", id, transition.sealed);
		}
		if (status === "done") {
			this.#sql.run("DELETE FROM secrets WHERE rollout_id = ?", id);
			this.#sql.run("DELETE FROM commands WHERE rollout_id = ?", id);
		}
		return { id, status, attempt, revision: row!.revision, events };
	}
}

function toSql(value: SQLInputValue | boolean): SQLInputValue {
	return typeof value === "boolean" ? Number(value) : value;
}
