import { Announcer } from "../announcer.ts";
import { type BytePlaces, bytePlacesFrom, openBytes } from "../bytes/places.ts";
import { DatabaseStore } from "../database-store.ts";
import type { Store } from "../store.ts";
import { keyFileIn } from "../vault/key-file.ts";
import { SeenVersions } from "../vault/seen.ts";
import { Vault } from "../vault/vault.ts";
import { checkSchema, connect, openPool, type PostgresOptions } from "./connection.ts";
import { PostgresDatabase } from "./database.ts";
import { prepare } from "./schema.ts";

export interface PostgresStoreOptions extends BytePlaces {
	url: string;
	/** Holds the key file, which all servers and workers of one database must share: another one is refused. */
	home: string;
	/** The master key; `<home>/secret.key`, made by the first on the database, unless given. */
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
		const bytes = await openBytes({ ...bytePlacesFrom(options.env ?? {}), ...options }, pool);
		const announcer = new Announcer();
		const database = new PostgresDatabase(connection, pool, announcer);
		const vault = await Vault.open(keyFileIn(options.home, options.keyFile), database.withKeys);
		return new DatabaseStore({ database, announcer, vault, seen: new SeenVersions(options.home), bytes });
	} catch (error) {
		await pool.end();
		throw error;
	}
}
