import { newId } from "../../src/model/id.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { request, type StoreAddress } from "./conformance.ts";

/** Writes for ever, many at once, and says on stdout what the store has acknowledged. Made to be killed. */
export type Acknowledged =
	| { type: "submit"; id: string }
	| { type: "event"; id: string; seq: number; text: string }
	| { type: "blob"; id: string; sizeBytes: number }
	| { type: "trace"; id: string; sizeBytes: number }
	| { type: "finish"; id: string };

if (process.argv[2]) {
	const store = await open(JSON.parse(process.argv[2]) as StoreAddress);
	await Promise.all(Array.from({ length: 8 }, () => writeForEver(store)));
}

async function writeForEver(store: Store): Promise<never> {
	for (;;) {
		const id = newId("ro");
		await store.submit({ rollouts: [{ id, request: request() }] });
		say({ type: "submit", id });
		await store.begin(id, "child");
		let traceBytes = 0;
		for (let round = 0; round < 5; round++) {
			const text = "x".repeat(round * 400);
			const [event] = await store.append(id, 1, [{ type: "note", text }]);
			say({ type: "event", id, seq: event!.seq, text });
			await store.appendTrace(id, 1, Buffer.alloc(5_000, round));
			traceBytes += 5_000;
			say({ type: "trace", id, sizeBytes: traceBytes });
		}
		await store.putBlob(id, 1, "agent.log", Buffer.alloc(100_000, 1));
		say({ type: "blob", id, sizeBytes: 100_000 });
		await store.finish(id, 1, { outcome: "completed", reward: 1, failure: null, summary: null });
		say({ type: "finish", id });
	}
}

function say(fact: Acknowledged): void {
	process.stdout.write(`${JSON.stringify(fact)}\n`);
}

async function open(address: StoreAddress): Promise<Store> {
	if (address.type === "sqlite") return openSqliteStore({ home: address.home });
	return openPostgresStore(address);
}
