import { messageOf } from "../errors.ts";
import type { Failure } from "../model/failure.ts";
import { kindOf } from "../model/id.ts";
import type { Rollout } from "../model/rollout.ts";
import type { Job, JobEnd } from "../queue/queue.ts";
import { coalesce } from "./coalesce.ts";
import type { Deps } from "./deps.ts";
import { run } from "./run.ts";
import { host } from "./talk/host.ts";

/**
 * What a worker does with one job. A job can start twice (a crash, a lost heartbeat): `begin` raises the attempt and thereby
 * fences off whoever still writes for the old one, and `finish` takes only the first end.
 */
export async function handle(job: Job, deps: Deps, workerId: string): Promise<JobEnd> {
	const { store } = deps;
	const rollout = await store.begin(job.rolloutId, workerId);
	if (rollout === null) return "done";
	// An attempt that was handed back in good order is not one that failed.
	const tries = rollout.attempt - (rollout.handedBack ?? 0);
	if (tries > rollout.request.maxAttempts) {
		await store.finish(rollout.id, rollout.attempt, {
			outcome: "failed",
			reward: null,
			failure: WORKER_LOST,
			summary: null,
		});
		return "done";
	}
	using stop = watchForAbort(rollout, deps);
	const end =
		kindOf(rollout.id) === "conversation"
			? await host(rollout, deps, { close: stop.signal, leave: job.signal, move: job.draining })
			: await run(rollout, deps, AbortSignal.any([stop.signal, job.signal]));
	const isLeaving = job.signal.aborted || job.draining?.aborted === true;
	if (isLeaving && !stop.signal.aborted && end.outcome === "aborted") {
		// Drained, not aborted: the rollout goes back unharmed.
		await store.requeue(rollout.id, rollout.attempt, HANDED_BACK, { handedBack: true });
		return "retry";
	}
	const again =
		end.failure?.retryable === true && tries < rollout.request.maxAttempts && !stop.signal.aborted;
	if (again && (await store.requeue(rollout.id, rollout.attempt, end.failure!))) return "retry";
	await store.finish(rollout.id, rollout.attempt, end);
	return "done";
}

const WORKER_LOST: Failure = {
	boundary: "sandbox",
	code: "worker_lost",
	message: "the process that ran this rollout died or lost its store, and its attempts are used up",
	retryable: true,
};

const HANDED_BACK: Failure = {
	boundary: "sandbox",
	code: "handed_back",
	message: "the worker was asked to stop before this rollout ended",
	retryable: true,
};

/** An abort may be asked for by any process; the store tells. */
function watchForAbort(rollout: Rollout, deps: Deps): { signal: AbortSignal } & Disposable {
	const controller = new AbortController();
	const ask = coalesce(
		async () => {
			if ((await deps.store.row(rollout.id))?.abortRequested) controller.abort();
		},
		(error) => deps.warn(`${rollout.id}: could not look for an abort: ${messageOf(error)}`),
	);
	const watching = deps.store.watch(rollout.id, ask);
	ask();
	return { signal: controller.signal, [Symbol.dispose]: () => watching[Symbol.dispose]() };
}
