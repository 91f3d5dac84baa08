import { performance } from "node:perf_hooks";
import pg from "pg";
import type { Db } from "pg-boss";
import { isSilent } from "../../store/postgres/outage.ts";

/** Missing for less than this, a process may only have lost its connection: it locks anew as soon as it can. */
const GRACE_MS = 3_000;
const CONNECT_MS = 5_000;
const QUERY_MS = 10_000;
/** Whoever lost the database itself and found it again gives the others time to notice, and to do the same. */
const RETURN_MS = CONNECT_MS + QUERY_MS + GRACE_MS;

export interface Session {
	number: number;
	db: Db;
}

/**
 * One connection that holds a lock while this process works. It falls with the process, so a worker that was killed is
 * known to be dead within seconds. One that merely hangs keeps its lock: its heartbeats tell.
 */
export class BossSession implements AsyncDisposable {
	readonly #url: string;
	readonly #schema: string;
	readonly #lockClass: string;
	readonly #missingSince = new Map<number, number>();
	#connection: Promise<pg.Client> | null = null;
	#client: pg.Client | null = null;
	#number: number | null = null;
	/** Numbers under which claims of ours may stand: the last one's, and those of tries whose end was not heard. */
	#former: number[] = [];
	#returnedAt = Number.NEGATIVE_INFINITY;
	#turn: Promise<unknown> = Promise.resolve();

	constructor(url: string, schema: string) {
		this.#url = url;
		this.#schema = schema;
		this.#lockClass = `(hashtext('${schema}.paddock_sessions') & 2147483647)`;
	}

	get claims(): string {
		return `${this.#schema}.paddock_claims`;
	}

	/** One text is one transaction: of several that start at once, one creates it. */
	async prepare(db: Db): Promise<void> {
		await db.executeSql(`
			SELECT pg_advisory_xact_lock(hashtext('${this.claims}'));
			CREATE SEQUENCE IF NOT EXISTS ${this.#schema}.paddock_sessions AS integer CYCLE;
			CREATE TABLE IF NOT EXISTS ${this.claims} (
				job_id uuid PRIMARY KEY, retry_count integer NOT NULL, session integer NOT NULL
			);
		`);
	}

	/** A transaction on the connection that holds the lock, one after the other: who has lost the lock claims nothing. */
	transact<T>(change: (session: Session) => Promise<T>): Promise<T> {
		const result = this.#turn.then(() => this.#transact(change));
		this.#turn = result.catch(() => undefined);
		return result;
	}

	/** Sessions that hold claims, and have had no lock for longer than it takes to connect again. */
	async dead(): Promise<number[]> {
		const missing = await this.transact(async ({ db }) => {
			const { rows }: { rows: { session: number }[] } = await db.executeSql(`
				SELECT DISTINCT session FROM ${this.claims}
				WHERE session NOT IN (
					SELECT objid::bigint FROM pg_locks
					WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND classid::bigint = ${this.#lockClass}
						AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
				)`);
			return new Set(rows.map((row) => row.session));
		});
		const now = performance.now();
		for (const known of this.#missingSince.keys()) if (!missing.has(known)) this.#missingSince.delete(known);
		for (const session of missing) if (!this.#missingSince.has(session)) this.#missingSince.set(session, now);
		if (now - this.#returnedAt < RETURN_MS) return [];
		return [...missing].filter((session) => now - this.#missingSince.get(session)! >= GRACE_MS);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#turn;
		const client = await this.#connection?.catch(() => null);
		this.#connection = null;
		await client?.end();
	}

	async #transact<T>(change: (session: Session) => Promise<T>): Promise<T> {
		this.#connection ??= this.#connect();
		const client = await this.#connection;
		const db: Db = { executeSql: (text, values) => client.query(text, values) };
		try {
			await client.query("BEGIN");
			const result = await change({ db, number: this.#number! });
			await client.query("COMMIT");
			return result;
		} catch (error) {
			// A connection that did not answer once is not asked again.
			if (isSilent(error)) this.#drop(client);
			else await client.query("ROLLBACK").catch(() => this.#drop(client));
			throw error;
		}
	}

	/** The number is new each time: the old connection may not have been found dead yet, and would hold its lock. */
	async #connect(): Promise<pg.Client> {
		const client = new pg.Client({
			connectionString: this.#url,
			application_name: "paddock-worker",
			connectionTimeoutMillis: CONNECT_MS,
			query_timeout: QUERY_MS,
			keepAlive: true,
			// A machine that lost its power closes nothing: the database asks it, and gives its lock up after 20 s.
			options: "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3",
		});
		client.on("error", () => this.#drop(client));
		client.on("end", () => this.#drop(client));
		this.#client = client;
		try {
			await client.connect();
			const { rows } = await client.query<{ number: number }>(
				`SELECT nextval('${this.#schema}.paddock_sessions')::integer AS number`,
			);
			const { number } = rows[0]!;
			await client.query(`SELECT pg_advisory_lock(${this.#lockClass}, $1)`, [number]);
			if (this.#number !== null) {
				this.#former.push(number);
				const adopt = `UPDATE ${this.claims} SET session = $1 WHERE session = ANY($2)`;
				await client.query(adopt, [number, this.#former]);
				this.#returnedAt = performance.now();
			}
			this.#number = number;
			this.#former = [number];
			return client;
		} catch (error) {
			this.#drop(client);
			throw error;
		}
	}

	#drop(client: pg.Client): void {
		if (this.#client !== client) return;
		this.#client = null;
		this.#connection = null;
		client.end().catch(() => undefined);
	}
}
