import type pg from "pg";
import { decideKept, type KeptAgentDecision, type KeptAgentStep } from "../kept-agent-steps.ts";
import { agentKeyName } from "../kept-agents.ts";
import { type KeptAgentColumns, toKeptAgentRow } from "../rows.ts";

/** One at a time for each name, also while there is no row to lock; whoever watches the agent is told. */
export async function changeAgent(
	client: pg.PoolClient,
	channel: string,
	name: string,
	step: KeptAgentStep,
): Promise<KeptAgentDecision> {
	await client.query("SELECT pg_advisory_xact_lock(hashtext('paddock agent ' || current_schema() || $1))", [
		name,
	]);
	const found = await client.query<KeptAgentColumns>("SELECT * FROM kept_agents WHERE name = $1", [name]);
	const row = found.rows[0] ? toKeptAgentRow(found.rows[0]) : null;
	const decision = decideKept(row, step, Date.now());
	if ("refused" in decision) return decision;
	await client.query("DELETE FROM kept_agents WHERE name = $1", [name]);
	if (decision.row) {
		const { id, record, sealed, revision } = decision.row;
		await client.query(
			"INSERT INTO kept_agents (name, id, record, sealed, revision) VALUES ($1, $2, $3, $4, $5)",
			[name, id, JSON.stringify(record), Buffer.from(sealed), revision],
		);
	} else await client.query("DELETE FROM vault_keys WHERE name = $1", [agentKeyName(row!.id)]);
	const { id, revision } = decision.row ?? { ...row!, revision: row!.revision + 1 };
	await client.query("SELECT pg_notify($1, $2)", [channel, `${id} ${revision}`]);
	return decision;
}
