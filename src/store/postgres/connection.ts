import pg from "pg";
import { messageOf, READ_TIMEOUT, UsageError } from "../../errors.ts";
import type { Sql, SqlValue } from "../database.ts";
import { mayBeDone } from "../patience.ts";

export interface PostgresOptions {
	url: string;
	schema: string;
	/** Connections at most, besides the one that listens. */
	connections: number;
}

/** Numbers stay numbers: positions and counts are far below what a double holds exactly. */
const types = {
	getTypeParser: ((oid: number, format?: "text" | "binary") =>
		oid === pg.types.builtins.INT8 && format !== "binary"
			? Number
			: pg.types.getTypeParser(oid, format as "text")) as typeof pg.types.getTypeParser,
};

const QUERY_TIMEOUT_MS = 30_000;

export function clientConfig(options: PostgresOptions): pg.ClientConfig {
	return {
		connectionString: options.url,
		options: `-c search_path=${options.schema}`,
		application_name: "paddock",
		types,
		connectionTimeoutMillis: 10_000,
		// A database that hangs is one that does not answer.
		query_timeout: QUERY_TIMEOUT_MS,
		keepAlive: true,
	};
}

export function openPool(options: PostgresOptions): pg.Pool {
	const pool = new pg.Pool({ ...clientConfig(options), max: options.connections, allowExitOnIdle: true });
	// A connection that breaks between two queries is dropped by the pool; the next query on it fails and reports for
	// itself. Unheard, the event would end the process.
	pool.on("error", () => undefined);
	pool.on("connect", (client) => client.on("error", () => undefined));
	return pool;
}

/**
 * The first contact, with all the time a migration may need. Its failure is the user's to solve, so it is said in one
 * sentence, without the password.
 */
export async function connect(options: PostgresOptions): Promise<pg.Client> {
	const client = new pg.Client({ ...clientConfig(options), query_timeout: 0 });
	client.on("error", () => undefined);
	try {
		await client.connect();
		return client;
	} catch (cause) {
		const message = `PostgreSQL cannot be reached: ${messageOf(cause)}. Check PADDOCK_DATABASE_URL.`;
		throw Object.assign(new UsageError(message, "database_unreachable"), { cause });
	}
}

/** The questions of both databases, numbered as PostgreSQL wants it. */
export function sqlOn(connection: Pick<pg.Pool, "query">): Sql {
	return {
		async all<Row extends object>(sql: string, ...values: SqlValue[]): Promise<Row[]> {
			let count = 0;
			return (
				await connection.query<Row>(
					sql.replaceAll("?", () => `$${++count}`),
					values,
				)
			).rows;
		},
	};
}

export async function transact<T>(pool: pg.Pool, change: (client: pg.PoolClient) => Promise<T>): Promise<T> {
	const client = await pool.connect();
	let broken: Error | undefined;
	let isCommitting = false;
	try {
		await client.query("BEGIN");
		const result = await change(client);
		isCommitting = true;
		await client.query("COMMIT");
		return result;
	} catch (error) {
		if (isCommitting) mayBeDone(error);
		// A connection that did not answer once is not asked again.
		if (messageOf(error) === READ_TIMEOUT) broken = error as Error;
		else
			await client.query("ROLLBACK").catch((failed: Error) => {
				broken = failed;
			});
		throw error;
	} finally {
		client.release(broken);
	}
}

/** Schema names become part of SQL text. */
export function checkSchema(schema: string): string {
	if (/^[a-z_][a-z0-9_]{0,40}$/.test(schema)) return schema;
	throw new UsageError("A schema name is made of small letters, digits and _.", "bad_schema_name");
}
