import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { newId } from "../../src/model/id.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { request } from "../store/conformance.ts";

const ROLLOUTS = 40;

test("a server killed again and again ends every rollout exactly once, with no gap in its events", async () => {
	const home = await mkdtemp(join(tmpdir(), "paddock-kill-"));
	try {
		await using store = await openSqliteStore({ home });
		const ids = Array.from({ length: ROLLOUTS }, () => newId("ro"));
		await store.submit({ rollouts: ids.map((id) => ({ id, request: request() })) });
		// Each life ends after a number of steps that falls in the middle of several rollouts.
		for (const steps of [1, 9, 23, 14, 31, 5]) await live(home, steps);
		await untilDone(store, home);

		for (const id of ids) {
			const rollout = await store.get(id);
			const events = await store.events(id, { after: 0, limit: 1000 });
			expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
			expect(events.filter((event) => event.type === "rollout-end")).toHaveLength(1);
			expect(events.at(-1)).toMatchObject({ type: "rollout-end", attempt: rollout!.attempt });
			// The reward names the attempt that gave it: only the last one counts.
			expect(rollout).toMatchObject({ status: "done", outcome: "completed", reward: rollout!.attempt });
			expect(events.filter((event) => event.type === "rollout-start")).toHaveLength(rollout!.attempt);
		}
	} finally {
		await rm(home, { recursive: true });
	}
});

/** Runs a server until it has taken so many steps, then kills it without warning. */
async function live(home: string, steps: number): Promise<void> {
	let taken = 0;
	await serve(home, (line, kill) => {
		if (line === "step") taken += 1;
		if (taken >= steps) kill();
	});
}

async function untilDone(store: Store, home: string): Promise<void> {
	await serve(home, async (_line, kill) => {
		if ((await store.counts()).done === ROLLOUTS) kill();
	});
}

async function serve(home: string, onLine: (line: string, kill: () => void) => void): Promise<void> {
	const script = fileURLToPath(new URL("./worker-child.ts", import.meta.url));
	const child = spawn(process.execPath, [script, home], { stdio: ["ignore", "pipe", "inherit"] });
	for await (const line of createInterface({ input: child.stdout }))
		onLine(line, () => child.kill("SIGKILL"));
}
