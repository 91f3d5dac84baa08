import type { Store } from "./store.ts";

/** Where a store rests, as one process tells another. */
export type StorePlace = { home: string; keyFile?: string | undefined } & (
	| { type: "sqlite" }
	| { type: "postgres"; url: string; schema?: string | undefined }
);

/** Opens it for a few small steps; traces and blobs are none of its business. */
export async function openStoreAt(place: StorePlace): Promise<Store> {
	if (place.type === "sqlite") {
		const { openSqliteStore } = await import("./sqlite/sqlite.ts");
		return await openSqliteStore(place);
	}
	const { openPostgresStore } = await import("./postgres/postgres.ts");
	return await openPostgresStore({ ...place, connections: 2 });
}
