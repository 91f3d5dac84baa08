import type { OpenAPIHono, z } from "@hono/zod-openapi";
import {
	type Aborted,
	abortRollout,
	createRollouts,
	type FilterQuery,
	finalizeRollout,
	getResult,
	getRollout,
	getStatistics,
	listRollouts,
} from "../api/rollouts.ts";
import { UsageError } from "../errors.ts";
import type { Paddock } from "../paddock.ts";
import { type HttpDoor, known, requireRollout, requireRow, stopWith } from "./http-door.ts";
import { mount } from "./mount.ts";

export function mountRollouts(app: OpenAPIHono, door: HttpDoor): void {
	const { paddock } = door;

	mount(app, createRollouts, async ({ body, headers }) => {
		const { n, group, idempotencyKey: keyInBody, ...request } = body;
		const idempotencyKey = oneKey(headers["idempotency-key"], keyInBody);
		return await paddock.submit(request, { n, group: group || n > 1, idempotencyKey });
	});

	mount(app, listRollouts, ({ query }) => paddock.list(toFilter(query), query));

	mount(app, getStatistics, ({ query }) => {
		const { ended_since: since, ended_until: until, buckets } = query;
		return paddock.statistics(toFilter(query), { since, until, buckets });
	});

	mount(app, getRollout, ({ params }) => requireRollout(door, params.id));

	mount(app, getResult, async ({ params }) => known(await paddock.result(params.id), "rollout", params.id));

	mount(app, finalizeRollout, async ({ params, query, signal }) => {
		const stop = stopWith(door, signal);
		try {
			await paddock.wait(params.id, { timeoutMs: query.wait_s * 1000, signal: stop.signal });
		} finally {
			stop.abort();
		}
		return known(await paddock.result(params.id), "rollout", params.id);
	});

	mount(app, abortRollout, async ({ params }) => {
		const ids = await paddock.abort({ id: params.id });
		if (ids.length === 0) await requireRow(door, params.id);
		return toAborted(ids);
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

/** `name=value` */
export function toLabel(label: string | undefined): { name: string; value: string } | undefined {
	if (label === undefined) return undefined;
	const equals = label.indexOf("=");
	return { name: label.slice(0, equals), value: label.slice(equals + 1) };
}

/** A query's filter, as the verbs spell it. */
export function toFilter(query: z.output<typeof FilterQuery>): Parameters<Paddock["list"]>[0] {
	const { status, outcome, model, text, since, until, label } = query;
	return {
		...{ status, outcome, model, text, since, until },
		taskId: query.task_id,
		groupId: query.group_id,
		batchId: query.batch_id,
		minReward: query.min_reward,
		maxReward: query.max_reward,
		minDurationS: query.min_duration_s,
		maxDurationS: query.max_duration_s,
		label: toLabel(label),
	};
}
