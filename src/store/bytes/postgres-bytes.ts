import type pg from "pg";
import { ask } from "../postgres/connection.ts";
import { transact } from "../postgres/transact.ts";
import type { Bytes } from "./bytes.ts";
import { GroupCommit } from "./group-commit.ts";
import { checkBlobName, checkId } from "./rollout-folder.ts";

const BLOB_CHUNK_BYTES = 1 << 20;
const TRACE_PAGE_ROWS = 8;

/** Traces and blobs in rows of the database, so that any machine can read them. */
export class PostgresBytes implements Bytes {
	readonly #pool: pg.Pool;
	readonly #traces = new Map<string, GroupCommit<Uint8Array, undefined>>();

	constructor(pool: pg.Pool) {
		this.#pool = pool;
	}

	async appendTrace(id: string, attempt: number, bytes: Uint8Array): Promise<void> {
		const key = `${checkId(id)} ${attempt}`;
		const trace =
			this.#traces.get(key) ?? new GroupCommit((chunks: Uint8Array[]) => this.#insert(id, attempt, chunks));
		this.#traces.set(key, trace);
		try {
			await trace.add(bytes);
		} finally {
			if (trace.idle) this.#traces.delete(key);
		}
	}

	async *readTrace(id: string, attempt: number): AsyncIterable<Uint8Array> {
		let after = 0;
		for (;;) {
			const rows = await ask<{ n: number; bytes: Buffer }>(
				this.#pool,
				"SELECT n, bytes FROM trace_chunks WHERE rollout_id = $1 AND attempt = $2 AND n > $3 ORDER BY n LIMIT $4",
				[id, attempt, after, TRACE_PAGE_ROWS],
			);
			for (const row of rows) yield row.bytes;
			const last = rows.at(-1);
			if (!last || rows.length < TRACE_PAGE_ROWS) return;
			after = last.n;
		}
	}

	async putBlob(id: string, name: string, data: Uint8Array): Promise<void> {
		const key = [checkId(id), checkBlobName(name)];
		await transact(this.#pool, async (client) => {
			// The row is locked by this, so two writers of one name follow each other.
			await client.query(
				`INSERT INTO blobs (rollout_id, name) VALUES ($1, $2)
				ON CONFLICT (rollout_id, name) DO UPDATE SET name = excluded.name`,
				key,
			);
			await client.query("DELETE FROM blob_chunks WHERE rollout_id = $1 AND name = $2", key);
			for (let n = 0; n * BLOB_CHUNK_BYTES < data.length; n++) {
				const chunk = data.subarray(n * BLOB_CHUNK_BYTES, (n + 1) * BLOB_CHUNK_BYTES);
				const insert = "INSERT INTO blob_chunks (rollout_id, name, n, bytes) VALUES ($1, $2, $3, $4)";
				await client.query(insert, [...key, n, chunk]);
			}
		});
	}

	async getBlob(id: string, name: string): Promise<Buffer | null> {
		// One statement sees one state: never the beginning of one version and the end of another.
		const rows = await ask<{ bytes: Buffer | null }>(
			this.#pool,
			`SELECT bytes FROM blobs LEFT JOIN blob_chunks USING (rollout_id, name)
			WHERE rollout_id = $1 AND name = $2 ORDER BY n`,
			[checkId(id), checkBlobName(name)],
		);
		if (rows.length === 0) return null;
		return Buffer.concat(rows.flatMap((row) => row.bytes ?? []));
	}

	async listBlobs(id: string): Promise<string[]> {
		const sql = "SELECT name FROM blobs WHERE rollout_id = $1";
		const rows = await ask<{ name: string }>(this.#pool, sql, [checkId(id)]);
		return rows.map((row) => row.name).sort();
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await Promise.all([...this.#traces.values()].map((trace) => trace.settled()));
	}

	async #insert(id: string, attempt: number, chunks: Uint8Array[]): Promise<undefined[]> {
		const insert = "INSERT INTO trace_chunks (rollout_id, attempt, bytes) VALUES ($1, $2, $3)";
		await transact(this.#pool, (client) => client.query(insert, [id, attempt, Buffer.concat(chunks)]));
		return chunks.map(() => undefined);
	}
}
