import { DatabaseSync } from "node:sqlite";
import type { Rollout, RolloutRow } from "../../model/rollout.ts";
import type { Announcer, Changed } from "../announcer.ts";
import {
	asOf,
	type CredentialDecision,
	type CredentialRow,
	type CredentialStep,
} from "../credential-steps.ts";
import type { Database, Sql } from "../database.ts";
import type { FoundFilter } from "../filter.ts";
import type { KeptAgentDecision, KeptAgentRow, KeptAgentStep } from "../kept-agent-steps.ts";
import type { Walk } from "../order.ts";
import { Reads } from "../reads.ts";
import {
	type CredentialColumns,
	type KeptAgentColumns,
	type RolloutColumns,
	toCredentialRow,
	toKeptAgentRow,
	toRow,
} from "../rows.ts";
import type { Source } from "../statistics.ts";
import type { AbortTarget } from "../store.ts";
import type { StoredSubmission, Submitted } from "../submission.ts";
import type { Step } from "../transitions.ts";
import type { WithKeys } from "../vault/vault.ts";
import { keysOf } from "./key-rows.ts";
import { listRows } from "./list.ts";
import { configure, prepare } from "./schema.ts";
import { select } from "./select.ts";
import { Statements } from "./statements.ts";
import { SqliteWriter } from "./writer.ts";

const OTHER_PROCESSES_EVERY_MS = 100;

/** One SQLite file: reads on this thread, writes on their own. */
export class SqliteDatabase implements Database {
	readonly sql: Sql;
	readonly withKeys: WithKeys;
	readonly #database: DatabaseSync;
	readonly #statements: Statements;
	readonly #writer: SqliteWriter;
	readonly #announcer: Announcer;
	#dataVersion = 0;
	#poll: NodeJS.Timeout | null = null;

	constructor(file: string, announcer: Announcer) {
		this.#database = new DatabaseSync(file);
		try {
			configure(this.#database);
			prepare(this.#database, file);
		} catch (error) {
			this.#database.close();
			throw error;
		}
		this.#statements = new Statements(this.#database);
		this.sql = { all: async (sql, ...values) => this.#statements.all(sql, ...values) };
		this.withKeys = keysOf(this.#database);
		this.#writer = new SqliteWriter(file);
		this.#announcer = announcer;
	}

	async list(filter: FoundFilter, walk: Walk): Promise<RolloutColumns[]> {
		return listRows(this.#statements, filter, walk);
	}

	ended(filter: FoundFilter): Source {
		return select(this.#statements, filter, "finished_at");
	}

	async some(ids: string[]): Promise<RolloutRow[]> {
		const rows = this.#statements.all<RolloutColumns>(
			`SELECT r.*, b.terms FROM json_each(?) AS asked
			CROSS JOIN rollouts r ON r.id = asked.value CROSS JOIN rollout_bodies b ON b.position = r.position`,
			JSON.stringify(ids),
		);
		return rows.map(toRow);
	}

	submit(submission: StoredSubmission): Promise<Submitted> {
		return this.#writer.order("submit", submission);
	}

	async change(target: AbortTarget, step: Step): Promise<Changed[]> {
		return this.#announcer.announce(await this.#writer.order("change", target, step, Date.now()));
	}

	async begin(id: string, worker: string): Promise<Rollout | null> {
		const [begun] = await this.change({ id }, { type: "begin", worker });
		return begun?.status === "running" ? await new Reads(this.sql).get(id) : null;
	}

	async dropCommands(id: string, attempt: number, through: number): Promise<void> {
		await this.#writer.order("dropCommands", id, attempt, through);
	}

	async credentials(): Promise<CredentialRow[]> {
		const rows = await this.sql.all<CredentialColumns>("SELECT * FROM credentials ORDER BY label");
		return rows.map((row) => asOf(toCredentialRow(row), Date.now()));
	}

	changeCredential(label: string, step: CredentialStep): Promise<CredentialDecision> {
		return this.#writer.order("changeCredential", label, step, Date.now());
	}

	async agents(): Promise<KeptAgentRow[]> {
		const rows = await this.sql.all<KeptAgentColumns>("SELECT * FROM kept_agents ORDER BY name");
		return rows.map(toKeptAgentRow);
	}

	async changeAgent(name: string, step: KeptAgentStep): Promise<KeptAgentDecision> {
		const changed = await this.#writer.order("changeAgent", name, step, Date.now());
		if (changed.id !== null) this.#announcer.changed(changed.id, changed.revision);
		return changed.decision;
	}

	/** While somebody watches, what other processes change shows in the file's version. */
	watch(id: string, onChange: () => void): Disposable {
		// First the file's version, then the rollout's: a change in between is noticed rather than missed.
		this.#poll ??= this.#startPolling();
		const watching = this.#announcer.watch(id, this.#revision(id), onChange);
		return {
			[Symbol.dispose]: () => {
				watching[Symbol.dispose]();
				if (this.#announcer.watched().length === 0) this.#stopPolling();
			},
		};
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#stopPolling();
		await this.#writer[Symbol.asyncDispose]();
		this.#database.close();
	}

	#startPolling(): NodeJS.Timeout {
		this.#dataVersion = this.#readDataVersion();
		return setInterval(() => {
			const version = this.#readDataVersion();
			if (version === this.#dataVersion) return;
			this.#dataVersion = version;
			for (const id of this.#announcer.watched()) this.#announcer.changed(id, this.#revision(id) ?? -1);
		}, OTHER_PROCESSES_EVERY_MS);
	}

	#stopPolling(): void {
		if (this.#poll) clearInterval(this.#poll);
		this.#poll = null;
	}

	#revision(id: string): number | null {
		const row = this.#statements.get<{ revision: number }>(
			"SELECT revision FROM rollouts WHERE id = ?1 UNION ALL SELECT revision FROM kept_agents WHERE id = ?1",
			id,
		);
		return row?.revision ?? null;
	}

	/** Differs from the last answer when any other connection, in any process, has committed since. */
	#readDataVersion(): number {
		return this.#statements.get<{ data_version: number }>("PRAGMA data_version")!.data_version;
	}
}
