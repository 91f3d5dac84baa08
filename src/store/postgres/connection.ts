import pg from "pg";
import { messageOf, UsageError } from "../../errors.ts";
import type { Sql, SqlValue } from "../database.ts";
import { reaching } from "./outage.ts";

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
/** A process that is frozen between two statements gives up its locks: submissions of all others wait for one of them. */
const IDLE_IN_TRANSACTION_MS = 10_000;

export function clientConfig(options: PostgresOptions): pg.ClientConfig {
	return {
		connectionString: options.url,
		options: `-c search_path=${options.schema} -c idle_in_transaction_session_timeout=${IDLE_IN_TRANSACTION_MS}`,
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

export async function ask<Row extends object>(
	connection: Pick<pg.Pool, "query">,
	sql: string,
	values: unknown[] = [],
): Promise<Row[]> {
	return (await reaching(() => connection.query<Row>(sql, values))).rows;
}

/** The questions of both databases, numbered as PostgreSQL wants it. */
export function sqlOn(connection: Pick<pg.Pool, "query">): Sql {
	return {
		all<Row extends object>(sql: string, ...values: SqlValue[]): Promise<Row[]> {
			let count = 0;
			const numbered = sql.replaceAll("?", () => `$${++count}`);
			return ask<Row>(connection, numbered, values);
		},
	};
}

/** Schema names become part of SQL text. */
export function checkSchema(schema: string): string {
	if (/^[a-z_][a-z0-9_]{0,40}$/.test(schema)) return schema;
	throw new UsageError("A schema name is made of small letters, digits and _.", "bad_schema_name");
}
