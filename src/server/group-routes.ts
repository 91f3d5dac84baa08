import type { OpenAPIHono } from "@hono/zod-openapi";
import {
	abortBatch,
	abortGroup,
	type BatchCreate,
	createBatch,
	getBatch,
	getBatchTokens,
	getGroup,
	getGroupFigures,
	getGroupTokens,
	listBatches,
	listGroups,
} from "../api/groups.ts";
import type { RolloutRequest } from "../model/request.ts";
import { type HttpDoor, known } from "./http-door.ts";
import { mount } from "./mount.ts";
import { oneKey, toAborted } from "./rollout-routes.ts";

export function mountGroups(app: OpenAPIHono, { paddock }: HttpDoor): void {
	mount(app, listGroups, ({ query }) => {
		const { cursor, limit, batch_id: batchId } = query;
		return paddock.listGroups({ limit, cursor, batchId });
	});

	mount(app, getGroup, async ({ params }) => known(await paddock.group(params.id), "group", params.id));

	mount(app, getGroupTokens, async ({ params }) => {
		known(await paddock.group(params.id), "group", params.id);
		return await paddock.tokenSums({ groupId: params.id });
	});

	mount(app, getGroupFigures, async ({ params }) => ({
		items: known(await paddock.groupFigures(params.id), "group", params.id),
	}));

	mount(app, abortGroup, async ({ params }) => {
		const ids = await paddock.abort({ groupId: params.id });
		if (ids.length === 0) known(await paddock.group(params.id), "group", params.id);
		return toAborted(ids);
	});

	mount(app, createBatch, async ({ body, headers }) => {
		const { n, labels } = body;
		const idempotencyKey = oneKey(headers["idempotency-key"], body.idempotencyKey);
		const made = await paddock.submitBatch(toRequests(body), { n, labels, idempotencyKey });
		return {
			batch: made.batch,
			groupIds: [...new Set(made.rollouts.flatMap(({ groupId }) => groupId ?? []))],
			rolloutIds: made.rollouts.map((rollout) => rollout.id),
		};
	});

	mount(app, listBatches, ({ query }) => paddock.listBatches(query));

	mount(app, getBatch, async ({ params }) => known(await paddock.batch(params.id), "batch", params.id));

	mount(app, getBatchTokens, async ({ params }) => {
		known(await paddock.batch(params.id), "batch", params.id);
		return await paddock.tokenSums({ batchId: params.id });
	});

	mount(app, abortBatch, async ({ params }) => {
		const ids = await paddock.abort({ batchId: params.id });
		if (ids.length === 0) known(await paddock.batch(params.id), "batch", params.id);
		return toAborted(ids);
	});
}

/** Tasks × endpoints, in that order. */
function toRequests(body: BatchCreate): RolloutRequest[] {
	const { tasks, endpoints, n: _n, idempotencyKey: _key, ...common } = body;
	return tasks.flatMap((task) => endpoints.map((endpoint) => ({ ...common, task, endpoint })));
}
