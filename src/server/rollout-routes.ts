import type { OpenAPIHono } from "@hono/zod-openapi";
import {
	type Aborted,
	abortRollout,
	createRollouts,
	finalizeRollout,
	getResult,
	getRollout,
	listRollouts,
} from "../api/rollouts.ts";
import type { Query } from "../api/route.ts";
import { UsageError } from "../errors.ts";
import { requireImageNames, requireModest } from "./admission.ts";
import { type Door, requireRollout, requireRow, type Store, stopWith } from "./door.ts";
import { mount } from "./mount.ts";
import { notFound } from "./problem.ts";

export function mountRollouts(app: OpenAPIHono, door: Door): void {
	const { paddock, admission } = door;

	mount(app, createRollouts, async ({ body, headers }) => {
		const { n, group, idempotencyKey: keyInBody, ...request } = body;
		const idempotencyKey = oneKey(headers["idempotency-key"], keyInBody);
		const options = { n, group: group || n > 1, ...(idempotencyKey ? { idempotencyKey } : {}) };
		const { task, ...terms } = request;
		requireModest(terms, n);
		requireImageNames([task], paddock.config.token);
		const made = await admission.admit(n, idempotencyKey, () => paddock.submit(request, options));
		return { rollouts: made.rollouts, group: made.group };
	});

	mount(app, listRollouts, async ({ query }) => {
		const { cursor, limit, order } = query;
		return await paddock.store.list(toFilter(query), { limit, order, ...(cursor ? { cursor } : {}) });
	});

	mount(app, getRollout, ({ params }) => requireRollout(door, params.id));

	mount(app, getResult, async ({ params }) => {
		const result = await paddock.result(params.id);
		if (!result) throw notFound("rollout", params.id);
		return result;
	});

	mount(app, finalizeRollout, async ({ params, query, signal }) => {
		const stop = stopWith(door, signal);
		try {
			await paddock.wait(params.id, { timeoutMs: query.wait_s * 1000, signal: stop.signal });
		} finally {
			stop.abort();
		}
		const result = await paddock.result(params.id);
		if (!result) throw notFound("rollout", params.id);
		return result;
	});

	mount(app, abortRollout, async ({ params }) => {
		await requireRow(door, params.id);
		return toAborted(await paddock.abort({ id: params.id }));
	});
}

export function toAborted(ids: string[]): Aborted {
	return { aborted: ids.length > 0, ids, reason: ids.length > 0 ? null : "it had already ended" };
}

export function oneKey(inHeader: string | undefined, inBody: string | undefined): string | undefined {
	if (inHeader !== undefined && inBody !== undefined && inHeader !== inBody)
		throw new UsageError(
			"the Idempotency-Key header and idempotencyKey in the body differ; send one",
			"contradictory_arguments",
		);
	return inHeader ?? inBody;
}

type RolloutFilter = Parameters<Store["list"]>[0];

function toFilter(query: Query<typeof listRollouts>): RolloutFilter {
	const { status, outcome, task_id, group_id, batch_id, label } = query;
	const equals = label?.indexOf("=") ?? -1;
	return {
		...(status ? { status } : {}),
		...(outcome ? { outcome } : {}),
		...(task_id ? { taskId: task_id } : {}),
		...(group_id ? { groupId: group_id } : {}),
		...(batch_id ? { batchId: batch_id } : {}),
		...(label ? { label: { name: label.slice(0, equals), value: label.slice(equals + 1) } } : {}),
	};
}
