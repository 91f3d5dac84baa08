import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import { isOutage } from "../../errors.ts";
import { ask } from "./connection.ts";
import { asOutage, isSilent, reaching } from "./outage.ts";

/** How long a database may be away before what became of a transaction is given up. */
const PATIENCE_MS = 60_000;
const FIRST_WAIT_MS = 50;
const LONGEST_WAIT_MS = 2_000;

/**
 * Runs a change in a transaction of its own, which is given what `first` found. When this throws, nothing was changed: a COMMIT
 * whose answer was lost is asked after, so that what is done counts as done, and what is tried again is not done twice.
 */
export async function transact<T, Row extends object>(
	pool: pg.Pool,
	change: (client: pg.PoolClient, found: Row[]) => Promise<T>,
	first = "",
): Promise<T> {
	const client = await reaching(() => pool.connect());
	let broken: Error | undefined;
	try {
		const { transaction, found } = await begin<Row>(client, first);
		const result = await change(client, found);
		try {
			await client.query("COMMIT");
		} catch (error) {
			broken = error as Error;
			if (!(await isCommitted(pool, transaction, error))) throw error;
		}
		return result;
	} catch (error) {
		if (!broken) broken = await rollback(client, error);
		throw asOutage(error);
	} finally {
		client.release(broken);
	}
}

/** `transaction`: the number under which the database remembers how it ended. All of it is one question. */
async function begin<Row extends object>(
	client: pg.PoolClient,
	first: string,
): Promise<{ transaction: string; found: Row[] }> {
	const answers: unknown = await client.query(`BEGIN; SELECT pg_current_xact_id()::text AS id; ${first}`);
	const [, { rows }, found] = answers as [unknown, pg.QueryResult<{ id: string }>, pg.QueryResult<Row>?];
	return { transaction: rows[0]!.id, found: found?.rows ?? [] };
}

/** The error that made the connection useless, if one did. */
async function rollback(client: pg.PoolClient, error: unknown): Promise<Error | undefined> {
	if (isSilent(error)) return error as Error;
	try {
		await client.query("ROLLBACK");
		return undefined;
	} catch (failed) {
		return failed as Error;
	}
}

async function isCommitted(pool: pg.Pool, transaction: string, lost: unknown): Promise<boolean> {
	// The database itself said no.
	if (!isOutage(asOutage(lost))) return false;
	const until = performance.now() + PATIENCE_MS;
	for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
		const status = await statusOf(pool, transaction);
		if (status === "committed") return true;
		if (status === "aborted") return false;
		if (performance.now() + waitMs > until) throw lost;
		await delay(waitMs, undefined, { ref: false });
	}
}

/** Null while the database is away; "in progress" until it has found the old connection dead. */
async function statusOf(pool: pg.Pool, transaction: string): Promise<string | null> {
	try {
		const sql = "SELECT pg_xact_status($1::xid8) AS status";
		return (await ask<{ status: string | null }>(pool, sql, [transaction]))[0]!.status;
	} catch (error) {
		if (isOutage(error)) return null;
		throw error;
	}
}
