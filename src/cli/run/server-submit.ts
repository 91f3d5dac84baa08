import { ApiError, type Client, type RetryOptions } from "../../client/client.ts";
import type { RolloutRequest } from "../../model/request.ts";
import type { Submitted } from "./workplace.ts";

/** The body, what it would take in the store, or the number of rollouts. */
const TOO_LARGE = ["body_too_large", "submission_too_large", "above_queue_limit"];

/**
 * Several tasks go as one batch, so that all of them are accepted or none. What is too large for one request, or for the
 * whole queue, goes task by task.
 */
export async function* submitToServer(
	client: Client,
	requests: readonly RolloutRequest[],
	n: number,
	retry: RetryOptions,
): AsyncGenerator<Submitted> {
	const batch = requests.length > 1 ? await submitBatch(client, requests, n, retry) : null;
	if (batch !== null) {
		yield* batch;
		return;
	}
	for (const request of requests) {
		retry.noMoreTries?.throwIfAborted();
		const { rollouts } = await client.submit({ ...request, n }, retry);
		yield* rollouts.map(({ id, groupId }, index) => ({ id, taskId: request.task.id, index, groupId }));
	}
}

/** Null when it is too large to be sent at once. */
async function submitBatch(
	client: Client,
	requests: readonly RolloutRequest[],
	n: number,
	retry: RetryOptions,
): Promise<Submitted[] | null> {
	// The tasks of one run differ in nothing else.
	const { task: _task, endpoint, ...common } = requests[0]!;
	const tasks = requests.map((request) => request.task);
	try {
		const batch = { ...common, tasks, endpoints: [endpoint], n };
		const { rolloutIds, groupIds } = await client.submitBatch(batch, retry);
		return rolloutIds.map((id, position) => ({
			id,
			taskId: tasks[Math.floor(position / n)]!.id,
			index: position % n,
			groupId: groupIds[Math.floor(position / n)]!,
		}));
	} catch (error) {
		if (error instanceof ApiError && TOO_LARGE.includes(error.code)) return null;
		throw error;
	}
}
