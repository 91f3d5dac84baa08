import { openEmbeddedQueue } from "../../src/queue/embedded/embedded.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";

/** A small server: takes work, writes a few events for each rollout, ends it, and says what it does. Made to be killed. */
const home = process.argv[2]!;
const store = await openSqliteStore({ home });
const queue = await openEmbeddedQueue({ home, store, pollMs: 50 });
await queue.work({
	workerId: `wk_${process.pid}`,
	capacity: 4,
	handle: async ({ rolloutId }) => {
		const rollout = await store.begin(rolloutId, "child");
		if (!rollout) return "done";
		for (let step = 0; step < 6; step++) {
			await store.append(rolloutId, rollout.attempt, [{ type: "note", text: `step ${step}` }]);
			await store.appendTrace(rolloutId, rollout.attempt, Buffer.from(`step ${step}`));
			process.stdout.write("step\n");
		}
		await store.finish(rolloutId, rollout.attempt, {
			outcome: "completed",
			reward: rollout.attempt,
			failure: null,
			summary: null,
		});
		process.stdout.write("end\n");
		return "done";
	},
});
