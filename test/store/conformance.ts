import type { TestContext } from "vitest";
import { newId } from "../../src/model/id.ts";
import { RolloutRequest } from "../../src/model/request.ts";
import type { Group, Rollout, RolloutRow } from "../../src/model/rollout.ts";
import type { NewRollout, RolloutEnd, Store, Submission } from "../../src/store/store.ts";

/** How a child process is told which store to open. */
export type StoreAddress =
	| { type: "sqlite"; home: string }
	| { type: "postgres"; url: string; schema: string; home: string };

/** One place where data rests; any number of stores may be opened on it. */
export interface StoreFixture extends AsyncDisposable {
	open(options?: { keyFile?: string }): Promise<Store>;
	address: StoreAddress;
	/** Whether these words are anywhere in what rests on disk. */
	holds(words: string): Promise<boolean>;
}

export type OpenFixture = (context: TestContext) => Promise<StoreFixture>;

export const COMPLETED: RolloutEnd = { outcome: "completed", reward: 1, failure: null, summary: null };

export function request(change: Record<string, unknown> = {}): RolloutRequest {
	return RolloutRequest.parse({
		task: { id: "echo", instruction: "Say hello." },
		endpoint: { type: "policy", policy: "noop" },
		...change,
	});
}

export function requestFor(taskId: string, change: Record<string, unknown> = {}): RolloutRequest {
	return request({ task: { id: taskId, instruction: "Say hello." }, ...change });
}

export function newRollout(change: Partial<NewRollout> = {}): NewRollout {
	return { id: newId("ro"), request: request(), ...change };
}

export async function submitOne(store: Store, change: Partial<NewRollout> = {}): Promise<RolloutRow> {
	const { rollouts } = await store.submit({ rollouts: [newRollout(change)] });
	return rollouts[0]!;
}

/** A rollout that a worker has taken: attempt 1. */
export async function running(store: Store, change: Partial<NewRollout> = {}): Promise<Rollout> {
	const { id } = await submitOne(store, change);
	return (await store.begin(id, "worker-1"))!;
}

export function groupOf(
	n: number,
	options: { taskId?: string; batchId?: string } = {},
): Submission & { group: Group } {
	const taskId = options.taskId ?? "echo";
	const batchId = options.batchId ?? null;
	const group: Group = { id: newId("gr"), taskId, batchId, n, createdAt: Date.now() };
	const rollouts = Array.from({ length: n }, () =>
		newRollout({
			request: requestFor(taskId),
			groupId: group.id,
			...(batchId === null ? {} : { batchId }),
		}),
	);
	return { rollouts, groups: [group], group };
}

export function batchOf(
	taskIds: string[],
	n: number,
): Submission & { batch: { id: string }; groups: Group[] } {
	const batch = {
		id: newId("ba"),
		size: taskIds.length * n,
		createdAt: Date.now(),
		labels: { suite: "smoke" },
	};
	const parts = taskIds.map((taskId) => groupOf(n, { taskId, batchId: batch.id }));
	return {
		batch,
		groups: parts.map((part) => part.group),
		rollouts: parts.flatMap((part) => part.rollouts),
	};
}

/** Resolves at the first call back after which `holds` says yes. */
export async function watchUntil(store: Store, id: string, holds: () => Promise<boolean>): Promise<void> {
	const met = Promise.withResolvers<void>();
	const check = () => void holds().then((yes) => yes && met.resolve(), met.reject);
	using _watcher = store.watch(id, check);
	check();
	await met.promise;
}
