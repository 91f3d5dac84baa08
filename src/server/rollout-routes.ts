import type { OpenAPIHono } from "@hono/zod-openapi";
import {
	type Aborted,
	abortRollout,
	createRollouts,
	finalizeRollout,
	getResult,
	getRollout,
	listRollouts,
	type RolloutRow,
} from "../api/rollouts.ts";
import type { Query } from "../api/route.ts";
import { UsageError } from "../errors.ts";
import type { Rollout } from "../model/rollout.ts";
import { requireImageNames, requireModest } from "./admission.ts";
import { type Door, requireRollout, type Store, stopWith } from "./door.ts";
import { mount } from "./mount.ts";
import { notFound } from "./problem.ts";

export function mountRollouts(app: OpenAPIHono, door: Door): void {
	const { paddock, admission } = door;

	mount(app, createRollouts, async ({ body, headers }) => {
		const { n, group, idempotencyKey: keyInBody, ...request } = body;
		const idempotencyKey = oneKey(headers["idempotency-key"], keyInBody);
		const options = { n, group: group || n > 1, ...(idempotencyKey ? { idempotencyKey } : {}) };
		requireModest(request, n);
		requireImageNames([request.task], paddock.config.token);
		const made = await admission.admit(n, idempotencyKey, () => paddock.submit(request, options));
		return { rollouts: made.rollouts.map(toRow), group: made.group };
	});

	mount(app, listRollouts, async ({ query }) => {
		const { cursor, limit, order } = query;
		const page = await paddock.store.list(toFilter(query), { limit, order, ...(cursor ? { cursor } : {}) });
		return { items: page.items.map(toRow), next: page.next };
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
		await requireRollout(door, params.id);
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

function toRow(rollout: Rollout): RolloutRow {
	const { request, summary: _, ...row } = rollout;
	const { endpoint, sandbox, mode, priority, labels } = request;
	return { ...row, endpoint, sandbox, mode, priority, labels };
}
