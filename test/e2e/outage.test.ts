import { execFile } from "node:child_process";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import { freePort, startDaemon } from "../fixtures/daemon.ts";
import { requirePart } from "../fixtures/parts.ts";
import { requirePostgres, startPostgres } from "../fixtures/postgres.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";

const run = promisify(execFile);
/** Works for a while, and has something to write all the time. */
const STEPS = [...Array.from({ length: 8 }, (_, n) => bash(`sleep 1; echo ${n} >> log`)), say("Done.")];
/** Longer than a worker would need to give its job up. */
const OUTAGE_MS = 8_000;

let home: string;
beforeEach(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-outage-"));
});
afterEach(async () => await rm(home, { recursive: true, force: true }));

test("PostgreSQL may go away for seconds: callers are told, rollouts go on", async (context) => {
	requirePostgres(context);
	await using postgres = await startPostgres();
	const port = await freePort();
	const env = { PADDOCK_HOME: home, PADDOCK_DATABASE_URL: postgres.url };
	await using _server = await startDaemon(["serve", "--port", `${port}`, "--no-worker"], env);
	await using _worker = await startDaemon(["worker", "--concurrency", "1"], env);
	const base = `http://127.0.0.1:${port}`;
	await expectUnharmed(createClient({ baseUrl: base }), () =>
		postgres.outage(async () => {
			const answer = await fetch(`${base}/api/v1/rollouts`);
			expect(answer.status).toBe(503);
			expect(answer.headers.get("retry-after")).toBe("2");
			expect(await answer.json()).toMatchObject({ code: "store_unavailable" });
			await delay(OUTAGE_MS);
		}),
	);
}, 240_000);

test("the disk may be full for seconds: rollouts go on", async (context) => {
	requirePart(context, "the right to mount", process.getuid?.() === 0, "run the tests as root");
	await run("mount", ["-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", home]);
	try {
		const port = await freePort();
		await using _server = await startDaemon(["serve", "--port", `${port}`, "--concurrency", "1"], {
			PADDOCK_HOME: home,
		});
		await expectUnharmed(createClient({ baseUrl: `http://127.0.0.1:${port}` }), async () => {
			await fill(join(home, "filler"));
			await delay(OUTAGE_MS);
			await rm(join(home, "filler"));
		});
	} finally {
		await run("umount", ["-l", home]);
	}
}, 240_000);

/** The rollout ends well at its first attempt, whatever `trouble` does while it runs. */
async function expectUnharmed(client: Client, trouble: () => Promise<void>): Promise<void> {
	await using model = await openScriptedModel(STEPS);
	const verify = [`test "$(tr -d '\\n' < log)" = 01234567`];
	const { rollouts } = await client.submit({ task: task({ verify }), endpoint: model.endpoint });
	const { id } = rollouts[0]!;
	for await (const event of client.events(id)) if (event.type === "call-end") break;
	await trouble();
	const rollout = await client.wait(id);
	expect(rollout).toMatchObject({ outcome: "completed", reward: 1, attempt: 1, failure: null });
	const events = await Array.fromAsync(client.events(id));
	expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
	expect(events.filter((event) => event.type === "call-end").map(({ call }) => call.index)).toEqual(
		STEPS.map((_, index) => index),
	);
}

async function fill(path: string): Promise<void> {
	await using file = await open(path, "w");
	try {
		for (;;) await file.write(Buffer.alloc(64 * 1024));
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
	}
}
