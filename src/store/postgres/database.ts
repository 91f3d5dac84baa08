import type pg from "pg";
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
import { ask, clientConfig, type PostgresOptions, sqlOn } from "./connection.ts";
import { changeCredential, NOW } from "./credential.ts";
import { changeAgent } from "./kept-agent.ts";
import { keyRows } from "./key-rows.ts";
import { listRows } from "./list.ts";
import { PostgresListener } from "./listener.ts";
import { select } from "./select.ts";
import { transact } from "./transact.ts";
import { PostgresWrites } from "./writes.ts";

/** One PostgreSQL schema, shared by many machines. */
export class PostgresDatabase implements Database {
	readonly sql: Sql;
	readonly withKeys: WithKeys;
	readonly #pool: pg.Pool;
	readonly #channel: string;
	readonly #writes: PostgresWrites;
	readonly #announcer: Announcer;
	readonly #listener: PostgresListener;

	constructor(connection: PostgresOptions, pool: pg.Pool, announcer: Announcer) {
		const channel = `paddock_${connection.schema}`;
		this.sql = sqlOn(pool);
		this.withKeys = (change) =>
			transact(pool, async (client) => {
				await client.query("SELECT pg_advisory_xact_lock(hashtext('paddock keys ' || current_schema()))");
				return await change(keyRows(client));
			});
		this.#pool = pool;
		this.#channel = channel;
		this.#writes = new PostgresWrites(pool, channel);
		this.#announcer = announcer;
		this.#listener = new PostgresListener(clientConfig(connection), channel, {
			payload: (payload) => {
				const [id, revision] = payload.split(" ");
				announcer.changed(id!, Number(revision));
			},
			connected: () => announcer.missed(),
		});
	}

	list(filter: FoundFilter, walk: Walk): Promise<RolloutColumns[]> {
		return listRows(this.sql, filter, walk);
	}

	ended(filter: FoundFilter): Source {
		return select(filter);
	}

	async some(ids: string[]): Promise<RolloutRow[]> {
		const rows = await ask<RolloutColumns>(
			this.#pool,
			`SELECT r.*, b.terms FROM unnest($1::text[]) WITH ORDINALITY AS asked (id, place)
			JOIN rollouts r ON r.id = asked.id JOIN rollout_bodies b ON b.position = r.position ORDER BY asked.place`,
			[ids],
		);
		return rows.map(toRow);
	}

	submit(submission: StoredSubmission): Promise<Submitted> {
		return this.#writes.submit(submission);
	}

	async change(target: AbortTarget, step: Step): Promise<Changed[]> {
		return this.#announcer.announce(await this.#writes.change(target, step));
	}

	async begin(id: string, worker: string): Promise<Rollout | null> {
		const { changed, rollout } = await this.#writes.begin(id, worker);
		this.#announcer.announce(changed);
		return rollout;
	}

	dropCommands(id: string, attempt: number, through: number): Promise<void> {
		return this.#writes.dropCommands(id, attempt, through);
	}

	async credentials(): Promise<CredentialRow[]> {
		const rows = await this.sql.all<CredentialColumns & { now: number }>(
			`SELECT *, ${NOW} AS now FROM credentials ORDER BY label`,
		);
		return rows.map((row) => asOf(toCredentialRow(row), row.now));
	}

	changeCredential(label: string, step: CredentialStep): Promise<CredentialDecision> {
		return transact(this.#pool, (client) => changeCredential(client, label, step));
	}

	async agents(): Promise<KeptAgentRow[]> {
		const rows = await this.sql.all<KeptAgentColumns>("SELECT * FROM kept_agents ORDER BY name");
		return rows.map(toKeptAgentRow);
	}

	changeAgent(name: string, step: KeptAgentStep): Promise<KeptAgentDecision> {
		return transact(this.#pool, (client) => changeAgent(client, this.#channel, name, step));
	}

	watch(id: string, onChange: () => void): Disposable {
		this.#listener.start();
		return this.#announcer.watch(id, null, onChange);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#listener[Symbol.asyncDispose]();
		await this.#writes.settled();
		await this.#pool.end();
	}
}
