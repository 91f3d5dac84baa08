import { Writable } from "node:stream";
import { exportRollouts } from "../../src/export/export.ts";
import type { Store } from "../../src/store/store.ts";
import { TraceWriter } from "../../src/store/trace/trace-log.ts";
import { longRollout } from "../store/trace-long.ts";
import { aRollout, toRow } from "./shelf.ts";

/** Run as a program of its own (`node export-many.ts <rollouts>`): exports a store that is made up page by page. */
const rollouts = Number(process.argv[2]);
const trace: Uint8Array[] = [];
const writer = new TraceWriter(async (bytes) => void trace.push(bytes));
for (const call of longRollout(4, 40_000)) await writer.write(call);

const store: Pick<Store, "list" | "get" | "group" | "readTrace"> = {
	list: async (_filter, { cursor, limit }) => {
		const from = Number(cursor ?? 0);
		const items = Array.from({ length: Math.min(limit, rollouts - from) }, (_, at) =>
			toRow(aRollout({ id: `ro_${from + at}`, calls: 4 })),
		);
		return { items, next: from + limit < rollouts ? String(from + limit) : null };
	},
	get: async (id) => aRollout({ id, calls: 4 }),
	group: async () => null,
	async *readTrace() {
		yield* trace;
	},
};

let bytes = 0;
const counter = new Writable({
	write: (chunk: Buffer, _encoding, done) => {
		bytes += chunk.length;
		setImmediate(done);
	},
});
const report = await exportRollouts(store, {}, "jsonl", counter);
console.log(JSON.stringify({ rows: report.rows, bytes }));
