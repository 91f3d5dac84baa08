import type { OpenAPIHono } from "@hono/zod-openapi";
import {
	abortBatch,
	abortGroup,
	type BatchCreate,
	type BatchSummary,
	createBatch,
	type GroupSummary,
	getBatch,
	getGroup,
	listBatches,
	listGroups,
} from "../api/groups.ts";
import type { RolloutRequest } from "../model/request.ts";
import type { Batch } from "../model/rollout.ts";
import { requireImageNames, requireModest } from "./admission.ts";
import type { Door, Store } from "./door.ts";
import { mount } from "./mount.ts";
import { notFound } from "./problem.ts";
import { oneKey, toAborted } from "./rollout-routes.ts";

export function mountGroups(app: OpenAPIHono, door: Door): void {
	const { paddock, admission } = door;
	const { store } = paddock;

	mount(app, listGroups, ({ query }) => {
		const { cursor, limit, batch_id } = query;
		return store.listGroups({
			limit,
			...(cursor ? { cursor } : {}),
			...(batch_id ? { batchId: batch_id } : {}),
		});
	});

	mount(app, getGroup, async ({ params }) => {
		const group = await store.group(params.id);
		if (!group) throw notFound("group", params.id);
		return group;
	});

	mount(app, abortGroup, async ({ params }) => {
		if (!(await store.group(params.id))) throw notFound("group", params.id);
		return toAborted(await paddock.abort({ groupId: params.id }));
	});

	mount(app, createBatch, async ({ body, headers }) => {
		const { n, labels } = body;
		const idempotencyKey = oneKey(headers["idempotency-key"], body.idempotencyKey);
		const requests = toRequests(body);
		const termsOfEachTask = requests.slice(0, body.endpoints.length).map(({ task: _, ...terms }) => terms);
		requireModest(termsOfEachTask, body.tasks.length * n);
		requireImageNames(body.tasks, paddock.config.token);
		const options = { n, labels, ...(idempotencyKey ? { idempotencyKey } : {}) };
		const made = await admission.admit(requests.length * n, idempotencyKey, () =>
			paddock.submitBatch(requests, options),
		);
		return { batch: made.batch, rolloutIds: made.rollouts.map((rollout) => rollout.id) };
	});

	mount(app, listBatches, ({ query }) => {
		const { cursor, limit } = query;
		return store.listBatches({ limit, ...(cursor ? { cursor } : {}) });
	});

	mount(app, getBatch, async ({ params }) => {
		const batch = await store.batch(params.id);
		if (!batch) throw notFound("batch", params.id);
		return await summarise(store, batch);
	});

	mount(app, abortBatch, async ({ params }) => {
		if (!(await store.batch(params.id))) throw notFound("batch", params.id);
		return toAborted(await paddock.abort({ batchId: params.id }));
	});
}

/** Tasks × endpoints, in that order. */
function toRequests(body: BatchCreate): RolloutRequest[] {
	const { tasks, endpoints, n: _n, idempotencyKey: _key, ...common } = body;
	return tasks.flatMap((task) => endpoints.map((endpoint) => ({ ...common, task, endpoint })));
}

async function summarise(store: Store, batch: Batch): Promise<BatchSummary> {
	const total = { done: 0, running: 0, queued: 0, rewarded: 0, rewardSum: 0 };
	const outcomes: Record<string, number> = {};
	for await (const group of groupsOf(store, batch.id)) {
		total.done += group.done;
		total.running += group.running;
		total.queued += group.queued;
		for (const { outcome, reward } of group.rollouts) {
			if (outcome) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
			if (reward === null) continue;
			total.rewarded += 1;
			total.rewardSum += reward;
		}
	}
	const { done, running, queued, rewarded, rewardSum } = total;
	return { ...batch, done, running, queued, outcomes, rewardMean: rewarded ? rewardSum / rewarded : null };
}

async function* groupsOf(store: Store, batchId: string): AsyncGenerator<GroupSummary> {
	let cursor: string | null | undefined;
	do {
		const page = await store.listGroups({ batchId, limit: 100, ...(cursor ? { cursor } : {}) });
		const summaries = await Promise.all(page.items.map((group) => store.group(group.id)));
		for (const summary of summaries) if (summary) yield summary;
		cursor = page.next;
	} while (cursor);
}
