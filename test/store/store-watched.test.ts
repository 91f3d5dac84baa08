import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { patient } from "../../src/store/patience.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { StoreFixture } from "./conformance.ts";
import { eventConformance } from "./conformance-events.ts";
import { rolloutConformance } from "./conformance-rollouts.ts";

/** As rollouts see it: patient, with somebody who listens. */
async function openFixture(): Promise<StoreFixture> {
	const home = await mkdtemp(join(tmpdir(), "paddock-store-"));
	return {
		address: { type: "sqlite", home },
		open: async () => {
			const store = patient(await openSqliteStore({ home }));
			store.onCommit(() => {});
			return store;
		},
		holds: async () => false,
		[Symbol.asyncDispose]: () => rm(home, { recursive: true }),
	};
}

rolloutConformance("a store that is watched", openFixture);
eventConformance("a store that is watched", openFixture);
