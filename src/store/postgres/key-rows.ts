import type pg from "pg";
import type { KeyRows } from "../vault/vault.ts";

export function keyRows(client: pg.PoolClient): KeyRows {
	return {
		async all() {
			const { rows } = await client.query<{ name: string; wrapped: Buffer }>(
				"SELECT name, wrapped FROM vault_keys",
			);
			return new Map(rows.map(({ name, wrapped }) => [name, wrapped]));
		},
		async put(name, wrapped) {
			await client.query(
				`INSERT INTO vault_keys (name, wrapped) VALUES ($1, $2)
				ON CONFLICT (name) DO UPDATE SET wrapped = excluded.wrapped`,
				[name, wrapped],
			);
		},
	};
}
