import type { DatabaseSync } from "node:sqlite";
import { splitRequest } from "../stored-task.ts";

/** A request that was kept whole with each rollout becomes its terms there, and its task, kept once for all of them. */
export function splitRequests(database: DatabaseSync): void {
	database.exec(`
		CREATE TABLE tasks (hash TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
		ALTER TABLE rollout_bodies RENAME COLUMN request TO terms;
		ALTER TABLE rollout_bodies ADD COLUMN task_hash TEXT NOT NULL DEFAULT '';
	`);
	const insert = database.prepare("INSERT INTO tasks (hash, body) VALUES (?, ?) ON CONFLICT DO NOTHING");
	const update = database.prepare("UPDATE rollout_bodies SET terms = ?, task_hash = ? WHERE position = ?");
	for (const { position, request } of requests(database)) {
		const { terms, task } = splitRequest(request);
		insert.run(task.hash, task.body);
		update.run(terms, task.hash, position);
	}
}

/** One at a time: together they may be larger than memory. */
function* requests(database: DatabaseSync): Generator<{ position: number; request: string }> {
	const next = database.prepare(
		"SELECT position, terms AS request FROM rollout_bodies WHERE position > ? ORDER BY position LIMIT 1",
	);
	let row = next.get(0);
	while (row !== undefined) {
		yield row as { position: number; request: string };
		row = next.get(row.position!);
	}
}
