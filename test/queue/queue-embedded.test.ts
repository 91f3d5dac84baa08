import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openEmbeddedQueue } from "../../src/queue/embedded/embedded.ts";
import { isAlive, ownIdentity } from "../../src/queue/embedded/process-identity.ts";
import type { Job, JobEnd } from "../../src/queue/queue.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { request, submitOne } from "../store/conformance.ts";
import { queueConformance } from "./conformance.ts";
import { finish, type QueueFixture } from "./fixture.ts";

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

test("a command that adopts nothing runs its own and leaves what others left", async () => {
	await using fixture = await openFixture();
	const { home } = fixture.address;
	const orphan = await submitOne(fixture.store);
	await using command = await openEmbeddedQueue({ home, store: fixture.store, adopt: false });
	const own = await submitOne(fixture.store, { request: request({ priority: -10 }) });
	const log: string[] = [];
	const ran = Promise.withResolvers<void>();
	const handle = async ({ rolloutId }: Job): Promise<JobEnd> => {
		log.push(rolloutId);
		await finish(fixture.store, rolloutId);
		ran.resolve();
		return "done";
	};
	const worker = await command.work({ workerId: "wk_command", capacity: 2, handle });
	await command.enqueue([{ rolloutId: own.id, priority: -10 }]);
	await ran.promise;
	await worker.drain(60_000);
	expect(log).toEqual([own.id]);
	expect((await fixture.store.get(orphan.id))?.status).toBe("queued");
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
