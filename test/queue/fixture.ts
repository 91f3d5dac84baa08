import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { TestContext } from "vitest";
import { newId } from "../../src/model/id.ts";
import type { Job, JobEnd, Queue, Worker } from "../../src/queue/queue.ts";
import type { Store } from "../../src/store/store.ts";
import { COMPLETED, submitOne } from "../store/conformance.ts";

export type QueueAddress =
	| { type: "embedded"; home: string }
	| { type: "boss"; url: string; schema: string; home: string; heartbeatS?: number };

/** One place where work waits; any number of queues, here or in other processes, may be opened on it. */
export interface QueueFixture extends AsyncDisposable {
	address: QueueAddress;
	store: Store;
	open(): Promise<Queue>;
}

export type OpenFixture = (context: TestContext) => Promise<QueueFixture>;

export async function submitted(store: Store, count: number): Promise<string[]> {
	const ids: string[] = [];
	for (let index = 0; index < count; index++) ids.push((await submitOne(store)).id);
	return ids;
}

export async function finish(store: Store, rolloutId: string): Promise<void> {
	const rollout = await store.begin(rolloutId, "w");
	if (rollout) await store.finish(rolloutId, rollout.attempt, COMPLETED);
}

/** Works until so many rollouts are finished; answers them in the order they were started. */
export async function runAll(
	store: Store,
	queue: Queue,
	count: number,
	options: { capacity: number; during?: () => Promise<void> },
): Promise<string[]> {
	const log: string[] = [];
	let finished = 0;
	const all = Promise.withResolvers<void>();
	const worker: Worker = await queue.work({
		workerId: newId("wk"),
		capacity: options.capacity,
		handle: async ({ rolloutId }) => {
			log.push(rolloutId);
			await options.during?.();
			await finish(store, rolloutId);
			finished += 1;
			if (finished === count) all.resolve();
			return "done";
		},
	});
	await all.promise;
	await worker.drain(60_000);
	return log;
}

/** A handler that waits to be released. */
export function hold(store: Store): {
	handle: (job: Job) => Promise<JobEnd>;
	started: Promise<void>;
	release: () => void;
	log: string[];
} {
	const started = Promise.withResolvers<void>();
	const released = Promise.withResolvers<void>();
	const log: string[] = [];
	return {
		log,
		started: started.promise,
		release: released.resolve,
		handle: async ({ rolloutId }) => {
			log.push(rolloutId);
			started.resolve();
			await released.promise;
			await finish(store, rolloutId);
			return "done";
		},
	};
}

/** A process that takes the job and never ends it. */
export async function startChild(address: QueueAddress, rolloutId: string): Promise<Child> {
	const script = fileURLToPath(new URL("./conformance-child.ts", import.meta.url));
	const child = spawn(process.execPath, [script, JSON.stringify(address), rolloutId], {
		stdio: ["ignore", "pipe", "inherit"],
	});
	const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
	const says = async (line: string) => {
		for (;;) {
			const next = await lines.next();
			if (next.done) throw new Error(`The child ended before it said "${line}".`);
			if (next.value === line) return;
		}
	};
	await says(`took ${rolloutId}`);
	return { process: child, says };
}

export interface Child {
	process: ChildProcess;
	/** Resolves when it prints this line. */
	says(line: string): Promise<void>;
}
