import type pg from "pg";
import { type CredentialDecision, type CredentialStep, decide } from "../credential-steps.ts";
import { keyName } from "../credentials.ts";
import { type CredentialColumns, toCredentialRow } from "../rows.ts";

/** The database's own clock: machines disagree about the time. */
export const NOW = "extract(epoch FROM clock_timestamp())::double precision * 1000";

/** One at a time for each label, also while there is no row to lock. */
export async function changeCredential(
	client: pg.PoolClient,
	label: string,
	step: CredentialStep,
): Promise<CredentialDecision> {
	await client.query(
		"SELECT pg_advisory_xact_lock(hashtext('paddock credential ' || current_schema() || $1))",
		[label],
	);
	const clock = await client.query<{ now: number }>(`SELECT ${NOW} AS now`);
	const found = await client.query<CredentialColumns>("SELECT * FROM credentials WHERE label = $1", [label]);
	const row = found.rows[0] ? toCredentialRow(found.rows[0]) : null;
	const decision = decide(row, step, clock.rows[0]!.now);
	if ("refused" in decision) return decision;
	await client.query("DELETE FROM credentials WHERE label = $1", [label]);
	if (decision.row) {
		const { id, record, sealed } = decision.row;
		await client.query("INSERT INTO credentials (label, id, record, sealed) VALUES ($1, $2, $3, $4)", [
			...[label, id, JSON.stringify(record)],
			Buffer.from(sealed),
		]);
	} else await client.query("DELETE FROM vault_keys WHERE name = $1", [keyName(row!.id)]);
	return decision;
}
