import type pg from "pg";
import { UsageError } from "../../errors.ts";
import { openSealer, readSealer, type Sealer } from "../seal.ts";
import { transact } from "./connection.ts";

const CHECK = "key check";

interface Sealed {
	context: string;
	sealed: Buffer;
}

/**
 * Opens the key file that all machines of one database share. The first one leaves a sealed word in the database; a
 * machine that cannot open it is refused here, since every rollout it took that has a key of its own would fail.
 */
export async function openSharedSealer(pool: pg.Pool, keyFile: string): Promise<Sealer> {
	return await transact(pool, async (client) => {
		// One after the other: of many that start on an empty database, one makes the key and the rest are held to it.
		await client.query("SELECT pg_advisory_xact_lock(hashtext('paddock key ' || current_schema()))");
		const check = await read(client, "SELECT $1 AS context, sealed FROM key_check", [CHECK]);
		if (check.length > 0) return await requireSealer(keyFile, check);
		// Rollouts queued before there was a check tell as much.
		const secrets = await read(client, "SELECT rollout_id AS context, sealed FROM secrets");
		const sealer = secrets.length > 0 ? await requireSealer(keyFile, secrets) : await openSealer(keyFile);
		await client.query("INSERT INTO key_check (sealed) VALUES ($1)", [sealer.seal("paddock", CHECK)]);
		return sealer;
	});
}

async function read(client: pg.PoolClient, sql: string, values: string[] = []): Promise<Sealed[]> {
	return (await client.query<Sealed>(sql, values)).rows;
}

/** Of several that are sealed, one that opens is enough: machines may have differed before there was a check. */
async function requireSealer(keyFile: string, sealed: Sealed[]): Promise<Sealer> {
	const sealer = await readSealer(keyFile);
	if (sealer !== null && sealed.some((one) => opens(sealer, one))) return sealer;
	const trouble = sealer === null ? "is missing" : "is another key than this database was made with";
	throw new UsageError(
		`${keyFile} ${trouble}: copy secret.key from the first machine that used the database, out of its PADDOCK_HOME.`,
		"bad_key_file",
	);
}

function opens(sealer: Sealer, { sealed, context }: Sealed): boolean {
	try {
		sealer.unseal(sealed, context);
		return true;
	} catch {
		return false;
	}
}
