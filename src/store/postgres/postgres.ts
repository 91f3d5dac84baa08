import { join } from "node:path";
import { Announcer } from "../announcer.ts";
import { type BytePlaces, bytePlacesFrom, openBytes } from "../bytes/places.ts";
import { DatabaseStore } from "../database-store.ts";
import type { Store } from "../store.ts";
import { checkSchema, connect, openPool, type PostgresOptions } from "./connection.ts";
import { PostgresDatabase } from "./database.ts";
import { openSharedSealer } from "./key.ts";
import { prepare } from "./schema.ts";

export interface PostgresStoreOptions extends BytePlaces {
	url: string;
	/** Holds the key file, which all servers and workers of one database must share: another one is refused. */
	home: string;
	/** `<home>/secret.key` unless given. */
	keyFile?: string | undefined;
	/** Says where traces and blobs go, unless the options say so. */
	env?: Record<string, string | undefined>;
	schema?: string | undefined;
	connections?: number | undefined;
}

/** The store of many machines: everything in one PostgreSQL schema, which is made on opening. */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
	const schema = checkSchema(options.schema ?? "paddock");
	const connection: PostgresOptions = { url: options.url, schema, connections: options.connections ?? 10 };
	const client = await connect(connection);
	try {
		await prepare(client, schema);
	} finally {
		await client.end();
	}
	const pool = openPool(connection);
	try {
		const sealer = await openSharedSealer(pool, options.keyFile ?? join(options.home, "secret.key"));
		const bytes = await openBytes({ ...bytePlacesFrom(options.env ?? {}), ...options }, pool);
		const announcer = new Announcer();
		return new DatabaseStore({
			database: new PostgresDatabase(connection, pool, announcer),
			...{ announcer, sealer, bytes },
		});
	} catch (error) {
		await pool.end();
		throw error;
	}
}
