import type pg from "pg";
import type { Changed } from "../announcer.ts";
import type { Change } from "../transitions.ts";

/**
 * Writes what steps made of locked rollouts, and tells other processes at the commit; in as many statements for
 * thousands as for one. A rollout may come more than once only with events and what they set.
 */
export async function writeChanges(
	client: pg.PoolClient,
	channel: string,
	changes: Change[],
): Promise<Changed[]> {
	const revisions = await writeRows(client, channel, changes);
	await keepBodies(client, changes);
	return changes.map(({ head: { id, status, attempt }, events }) => ({
		...{ id, status, attempt, events },
		revision: revisions.get(id)!,
	}));
}

/** Events as columns. */
function eventsOf(changes: Change[]): unknown[][] {
	const rows = changes.flatMap(({ head, transition, events }) =>
		transition.events.map((event, index) => ({
			rollout: head.position,
			seq: events[index]!.seq,
			at: events[index]!.at,
			body: JSON.stringify(event),
		})),
	);
	return [
		rows.map((row) => row.rollout),
		rows.map((row) => row.seq),
		rows.map((row) => row.at),
		rows.map((row) => row.body),
	];
}

/** Each rollout once, as the last change left it, with all that they set. */
function latestOf(changes: Change[]): { head: Change["head"]; set: Change["transition"]["set"] }[] {
	const latest = new Map<string, ReturnType<typeof latestOf>[number]>();
	for (const { head, transition } of changes)
		latest.set(head.id, { head, set: { ...latest.get(head.id)?.set, ...transition.set } });
	return [...latest.values()];
}

/** One statement for all that change alike, the first with all events; answers the new revisions. */
async function writeRows(
	client: pg.PoolClient,
	channel: string,
	changes: Change[],
): Promise<Map<string, number>> {
	const alike = Map.groupBy(latestOf(changes), ({ set }) => JSON.stringify(set));
	const revisions = new Map<string, number>();
	let events = eventsOf(changes);
	for (const some of alike.values()) {
		const set = Object.entries(some[0]!.set);
		const { rows } = await client.query<{ id: string; revision: number }>(
			`WITH told AS (
				INSERT INTO events (rollout, seq, at, body)
				SELECT * FROM unnest($4::bigint[], $5::integer[], $6::double precision[], $7::text[])
			), changed AS (
				UPDATE rollouts SET ${set.map(([column], index) => `${column} = $${index + 8}, `).join("")}
					last_seq = given.seq, revision = revision + 1
				FROM unnest($1::bigint[], $2::integer[]) AS given (position, seq)
				WHERE rollouts.position = given.position RETURNING id, revision
			) SELECT id, revision, pg_notify($3, id || ' ' || revision) FROM changed`,
			[
				some.map(({ head }) => head.position),
				some.map(({ head }) => head.last_seq),
				channel,
				...events,
				...set.map(([, value]) => value),
			],
		);
		events = eventsOf([]);
		for (const { id, revision } of rows) revisions.set(id, revision);
	}
	return revisions;
}

async function keepBodies(client: pg.PoolClient, changes: Change[]): Promise<void> {
	for (const { head, transition } of changes) {
		if (transition.summary !== undefined) {
			const keep = "UPDATE rollout_bodies SET summary = $2 WHERE position = $1";
			await client.query(keep, [head.position, transition.summary]);
		}
		if (transition.sealed !== undefined) {
			const seal = "INSERT INTO secrets (rollout_id, sealed) VALUES ($1, $2)";
			await client.query(seal, [head.id, Buffer.from(transition.sealed)]);
		}
		if (transition.command !== undefined) {
			const post = "INSERT INTO commands (rollout_id, body) VALUES ($1, $2)";
			await client.query(post, [head.id, transition.command]);
		}
	}
	const ended = changes.filter(({ head }) => head.status === "done").map(({ head }) => head.id);
	if (ended.length === 0) return;
	await client.query("DELETE FROM secrets WHERE rollout_id = ANY($1)", [ended]);
	await client.query("DELETE FROM commands WHERE rollout_id = ANY($1)", [ended]);
}
