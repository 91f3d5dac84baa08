import type pg from "pg";
import { UsageError } from "../../errors.ts";
import { openSealer, readSealer, type Sealer } from "../seal.ts";
import { transact } from "./transact.ts";

const CHECK = "key check";

/**
 * Opens the key file that all machines of one database share. The first one leaves a sealed word in the database; a
 * machine that cannot open it is refused here, since every rollout it took that has a key of its own would fail.
 */
export async function openSharedSealer(pool: pg.Pool, keyFile: string): Promise<Sealer> {
	return await transact(pool, async (client) => {
		// One after the other: of many that start on an empty database, one makes the key and the rest are held to it.
		await client.query("SELECT pg_advisory_xact_lock(hashtext('paddock key ' || current_schema()))");
		const { rows } = await client.query<{ sealed: Buffer }>("SELECT sealed FROM key_check");
		if (rows[0]) return await requireSealer(keyFile, rows[0].sealed);
		const sealer = await openSealer(keyFile);
		await client.query("INSERT INTO key_check (sealed) VALUES ($1)", [sealer.seal("paddock", CHECK)]);
		return sealer;
	});
}

async function requireSealer(keyFile: string, check: Buffer): Promise<Sealer> {
	const sealer = await readSealer(keyFile);
	if (sealer !== null && opens(sealer, check)) return sealer;
	const trouble = sealer === null ? "is missing" : "is another key than this database was made with";
	throw new UsageError(
		`${keyFile} ${trouble}: copy secret.key from the first machine that used the database, out of its PADDOCK_HOME.`,
		"bad_key_file",
	);
}

function opens(sealer: Sealer, check: Buffer): boolean {
	try {
		sealer.unseal(check, CHECK);
		return true;
	} catch {
		return false;
	}
}
