import type { ClientBase } from "pg";
import { splitRequest } from "../stored-task.ts";

/** Few at a time: each may weigh megabytes. */
const PAGE = 10;

/** A request that was kept whole with each rollout becomes its terms there, and its task, kept once for all of them. */
export async function splitRequests(client: ClientBase): Promise<void> {
	await client.query(`
		CREATE TABLE tasks (hash text PRIMARY KEY, body text NOT NULL);
		ALTER TABLE rollout_bodies RENAME COLUMN request TO terms;
		ALTER TABLE rollout_bodies ADD COLUMN task_hash text NOT NULL DEFAULT '';
	`);
	for await (const page of pages(client)) {
		const parts = page.map(({ position, request }) => ({ position, ...splitRequest(request) }));
		await client.query(
			"INSERT INTO tasks (hash, body) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING",
			[parts.map(({ task }) => task.hash), parts.map(({ task }) => task.body)],
		);
		await client.query(
			`UPDATE rollout_bodies SET terms = given.terms, task_hash = given.hash
			FROM unnest($1::bigint[], $2::text[], $3::text[]) AS given (position, terms, hash)
			WHERE rollout_bodies.position = given.position`,
			[
				parts.map(({ position }) => position),
				parts.map(({ terms }) => terms),
				parts.map(({ task }) => task.hash),
			],
		);
	}
}

async function* pages(client: ClientBase): AsyncGenerator<{ position: number; request: string }[]> {
	let after = 0;
	for (;;) {
		const { rows } = await client.query<{ position: number; request: string }>(
			"SELECT position, terms AS request FROM rollout_bodies WHERE position > $1 ORDER BY position LIMIT $2",
			[after, PAGE],
		);
		const last = rows.at(-1);
		if (last === undefined) return;
		yield rows;
		after = last.position;
	}
}
