import type { DatabaseSync } from "node:sqlite";
import type { WithKeys } from "../vault/vault.ts";
import { Statements } from "./statements.ts";

/** Reads and changes the vault's keys; other processes wait for the write lock, other callers here for their turn. */
export function keysOf(database: DatabaseSync): WithKeys {
	const sql = new Statements(database);
	const rows = {
		async all() {
			const found = sql.all<{ name: string; wrapped: Uint8Array }>("SELECT name, wrapped FROM vault_keys");
			return new Map(found.map(({ name, wrapped }) => [name, wrapped]));
		},
		async put(name: string, wrapped: Uint8Array) {
			sql.run(
				`INSERT INTO vault_keys (name, wrapped) VALUES (?, ?)
				ON CONFLICT (name) DO UPDATE SET wrapped = excluded.wrapped`,
				name,
				wrapped,
			);
		},
	};
	let turn: Promise<unknown> = Promise.resolve();
	return (change) => {
		const result = turn.then(async () => {
			database.exec("BEGIN IMMEDIATE");
			try {
				const changed = await change(rows);
				database.exec("COMMIT");
				return changed;
			} catch (error) {
				if (database.isTransaction) database.exec("ROLLBACK");
				throw error;
			}
		});
		turn = result.catch(() => undefined);
		return result;
	};
}
