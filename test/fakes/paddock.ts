import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Config, loadConfig } from "../../src/config.ts";
import { toResult } from "../../src/export/result.ts";
import type { ModelCall } from "../../src/model/call.ts";
import { toTimerMs } from "../../src/model/duration.ts";
import { newId } from "../../src/model/id.ts";
import type { RolloutRequest } from "../../src/model/request.ts";
import type { Group } from "../../src/model/rollout.ts";
import type { Paddock } from "../../src/paddock.ts";
import type { Queue } from "../../src/queue/queue.ts";
import { follow } from "../../src/store/follow.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { NewRollout, Store } from "../../src/store/store.ts";
import { readCalls, TraceWriter } from "../../src/store/trace/trace-log.ts";

/** A Paddock over the real embedded store in which nobody works: the test plays the worker, through the store. */
export interface FakePaddock extends Paddock {
	/** Takes the rollout, writes these calls, and ends it. */
	complete(id: string, reward: number | null, calls?: ModelCall[]): Promise<void>;
}

export interface FakePaddockOptions extends Partial<Config> {
	wrapStore?: (store: Store) => Store;
}

export async function openFakePaddock(options: FakePaddockOptions = {}): Promise<FakePaddock> {
	const home = await mkdtemp(join(tmpdir(), "paddock-server-"));
	const { wrapStore = (store) => store, ...overrides } = options;
	const config = { ...loadConfig({ PADDOCK_HOME: home }, home), ...overrides };
	const bare = await openSqliteStore({ home });
	const store = wrapStore(bare);
	return {
		config,
		store,
		queue: idleQueue(store),
		...submitting(store),
		...reading(store),
		abort: async (target) => (await store.requestAbort(target)).map(({ id }) => id),
		command: (id, command) => store.post(id, command),
		complete: (id, reward, calls = []) => complete(store, id, reward, calls),
		async work() {
			throw new Error("nobody works here");
		},
		workers: async () => [],
		endpoints: () => [
			{ name: "scripted", configured: true, baseUrl: null, model: "oracle", note: "plays the solution" },
		],
		sandboxes: async () => ({
			local: { ok: true, checks: [{ name: "bwrap", ok: true, detail: "found" }] },
		}),
		async [Symbol.asyncDispose]() {
			await bare[Symbol.asyncDispose]();
			await rm(home, { recursive: true, force: true });
		},
	};
}

function submitting(store: Store): Pick<Paddock, "submit" | "submitBatch"> {
	return {
		async submit(request, { n = 1, group = n > 1, idempotencyKey } = {}) {
			const groups = group ? [newGroup(request, n, null)] : [];
			const rollouts = repeat(n, () => newRollout(request, groups[0]?.id));
			return await store.submit({ rollouts, groups, ...(idempotencyKey ? { idempotencyKey } : {}) });
		},
		async submitBatch(requests, { n, labels = {}, idempotencyKey }) {
			const batch = { id: newId("batch"), size: requests.length * n, createdAt: Date.now(), labels };
			const groups = requests.map((request) => newGroup(request, n, batch.id));
			const rollouts = requests.flatMap((request, index) =>
				repeat(n, () => newRollout(request, groups[index]?.id, batch.id)),
			);
			const key = idempotencyKey ? { idempotencyKey } : {};
			const made = await store.submit({ rollouts, groups, batch, ...key });
			return { batch: made.batch!, rollouts: made.rollouts };
		},
	};
}

function reading(store: Store): Pick<Paddock, "follow" | "wait" | "result" | "messages" | "calls"> {
	async function* calls(id: string): AsyncGenerator<ModelCall> {
		const rollout = await store.get(id);
		if (rollout) yield* readCalls(() => store.readTrace(id, rollout.attempt));
	}
	return {
		follow: (id, options = {}) => follow(store, id, options),
		async wait(id, { timeoutMs, signal }) {
			const limit = AbortSignal.timeout(toTimerMs(timeoutMs));
			for await (const _ of follow(store, id, { signal: signal ? AbortSignal.any([signal, limit]) : limit }));
			return await store.get(id);
		},
		async result(id) {
			const rollout = await store.get(id);
			return rollout && (await toResult(rollout, calls(id), (name) => store.getBlob(id, name)));
		},
		async messages(id) {
			if (!(await store.get(id))) return null;
			const blob = await store.getBlob(id, "transcript.json");
			const messages = blob ? JSON.parse(blob.toString()) : [];
			return { sessionId: null, messages, note: blob ? null : "there is no session yet" };
		},
		calls,
	};
}

async function complete(store: Store, id: string, reward: number | null, calls: ModelCall[]): Promise<void> {
	const rollout = await store.begin(id, "test-worker");
	if (!rollout) return;
	const { attempt } = rollout;
	const writer = new TraceWriter((bytes) => store.appendTrace(id, attempt, bytes));
	for (const call of calls) await writer.write(call);
	await store.patch(id, attempt, { calls: calls.length });
	await store.append(id, attempt, [
		{ type: "phase-start", phase: "agent" },
		{ type: "reward", reward },
	]);
	await store.finish(id, attempt, { outcome: "completed", reward, failure: null, summary: null });
}

function idleQueue(store: Store): Queue {
	return {
		enqueue: async () => {},
		work: async () => {
			throw new Error("nobody works here");
		},
		cancel: async () => {},
		depth: async () => (await store.counts()).queued,
		workers: async () => [],
		[Symbol.asyncDispose]: async () => {},
	};
}

function newGroup(request: RolloutRequest, n: number, batchId: string | null): Group {
	return { id: newId("group"), taskId: request.task.id, batchId, n, createdAt: Date.now() };
}

function newRollout(request: RolloutRequest, groupId?: string, batchId?: string): NewRollout {
	return { id: newId("rollout"), request, ...(groupId ? { groupId } : {}), ...(batchId ? { batchId } : {}) };
}

function repeat<T>(count: number, make: () => T): T[] {
	return Array.from({ length: count }, make);
}
