import { openBossQueue } from "../../src/queue/boss/boss.ts";
import { openEmbeddedQueue } from "../../src/queue/embedded/embedded.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { QueueAddress } from "./fixture.ts";

/** Takes one job, says so, and never ends it. Made to be killed. */
const address = JSON.parse(process.argv[2]!) as QueueAddress;
const rolloutId = process.argv[3]!;

const queue = await open();
await queue.enqueue([{ rolloutId, priority: 0 }]);
await queue.work({
	workerId: "wk_child",
	capacity: 1,
	handle: (job) => {
		process.stdout.write(`took ${job.rolloutId}\n`);
		job.signal.addEventListener("abort", () => process.stdout.write(`lost ${job.rolloutId}\n`));
		return new Promise(() => undefined);
	},
});

async function open() {
	if (address.type === "embedded") {
		return openEmbeddedQueue({ home: address.home, store: await openSqliteStore(address) });
	}
	return openBossQueue({
		url: address.url,
		schema: `${address.schema}_queue`,
		store: await openPostgresStore(address),
		...(address.heartbeatS ? { heartbeatS: address.heartbeatS } : {}),
	});
}
