import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openEmbeddedQueue } from "../../src/queue/embedded.ts";
import { isAlive, ownIdentity } from "../../src/queue/process-identity.ts";
import { openSqliteStore } from "../../src/store/sqlite.ts";
import { submitOne } from "../store/conformance.ts";
import { type QueueFixture, queueConformance } from "./conformance.ts";

async function openFixture(): Promise<QueueFixture> {
	const home = await mkdtemp(join(tmpdir(), "paddock-queue-"));
	const store = await openSqliteStore({ home });
	return {
		address: { type: "embedded", home },
		store,
		open: () => openEmbeddedQueue({ home, store, pollMs: 50, retryDelayMs: 20, onError: () => undefined }),
		[Symbol.asyncDispose]: async () => {
			await store[Symbol.asyncDispose]();
			await rm(home, { recursive: true });
		},
	};
}

queueConformance("the embedded queue", openFixture);

test("a process that only enqueues leaves its work to one that works", async () => {
	await using fixture = await openFixture();
	await using server = await fixture.open();
	await using worker = await fixture.open();
	const { id } = await submitOne(fixture.store);
	await server.enqueue([{ rolloutId: id, priority: 0 }]);
	const ran = Promise.withResolvers<string>();
	await worker.work({
		workerId: "wk_other",
		capacity: 1,
		handle: async (job) => {
			ran.resolve(job.rolloutId);
			return "done";
		},
	});
	expect(await ran.promise).toBe(id);
});

test("a process is told from a later one with the same pid, and from one of an earlier boot", () => {
	const own = ownIdentity();
	const now = Date.now();
	expect(isAlive(own, now, now)).toBe(true);
	expect(isAlive({ ...own, started: `${own.started}1` }, now, now)).toBe(false);
	expect(isAlive({ ...own, boot: "another" }, now, now)).toBe(false);
	const elsewhere = { ...own, namespace: "pid:[1]" };
	expect(isAlive(elsewhere, now - 1_000, now)).toBe(true);
	expect(isAlive(elsewhere, now - 60_000, now)).toBe(false);
});

test("the queue's file is for its owner alone", async () => {
	await using fixture = await openFixture();
	await using _queue = await fixture.open();
	const { mode } = await stat(join(fixture.address.home, "queue.db"));
	expect((mode & 0o077).toString(8)).toBe("0");
});
