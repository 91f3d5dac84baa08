import { z } from "zod";
import { Outcome } from "../model/failure.ts";
import { RolloutRequest } from "../model/request.ts";
import { RolloutResult } from "../model/result.ts";
import { Group, Rollout, RolloutRow, RolloutStatus } from "../model/rollout.ts";
import { API, Id, IdParams, PageQuery, pageOf, route, whole } from "./route.ts";

const NOT_FOUND = { 404: "No rollout has this id" };
const tag = "rollouts";

export const IdempotencyKey = z
	.string()
	.min(1)
	.max(200)
	.regex(/^[\x21-\x7e]+$/)
	.describe("A repeat with the same key gets what the first one made; another request with it is refused");

export const IdempotencyHeaders = z.object({ "idempotency-key": IdempotencyKey.optional() });

/** Why nothing was created. */
export const CREATING = {
	409: "The idempotency key was used for another request",
	413: "The body is too large",
	429: "The queue is full; Retry-After says when to come back",
};

export const RolloutCreate = RolloutRequest.extend({
	n: z.int().min(1).max(1024).default(1).describe("More than one makes a group"),
	group: z.boolean().default(false).describe("Make a group even of one"),
	idempotencyKey: IdempotencyKey.optional(),
}).meta({ id: "RolloutCreate" });
export type RolloutCreate = z.infer<typeof RolloutCreate>;

export const createRollouts = route({
	name: "createRollouts",
	method: "post",
	path: `${API}/rollouts`,
	tag,
	summary: "Store and queue one rollout, or a group of n",
	headers: IdempotencyHeaders,
	body: RolloutCreate,
	status: 201,
	reply: z.object({ rollouts: z.array(RolloutRow), group: Group.nullable() }),
	refusals: CREATING,
});

export const listRollouts = route({
	name: "listRollouts",
	method: "get",
	path: `${API}/rollouts`,
	tag,
	summary: "Page through rollouts",
	query: PageQuery.extend({
		status: RolloutStatus.optional(),
		outcome: Outcome.optional(),
		task_id: z.string().min(1).max(200).optional(),
		group_id: Id.optional(),
		batch_id: Id.optional(),
		label: z
			.string()
			.max(601)
			.regex(/^[^=]{1,100}=/)
			.optional()
			.describe("name=value"),
		order: z.enum(["newest", "oldest"]).default("newest"),
	}),
	reply: pageOf(RolloutRow),
	refusals: { 400: "The cursor is not one of ours" },
});

export const getRollout = route({
	name: "getRollout",
	method: "get",
	path: `${API}/rollouts/{id}`,
	tag,
	summary: "One rollout with its request and summary",
	params: IdParams,
	reply: Rollout,
	refusals: NOT_FOUND,
});

export const getResult = route({
	name: "getResult",
	method: "get",
	path: `${API}/rollouts/{id}/result`,
	tag,
	summary: "The result as trainers read it; of an unfinished rollout the same shape with `error` set",
	params: IdParams,
	reply: RolloutResult,
	refusals: NOT_FOUND,
});

export const finalizeRollout = route({
	name: "finalizeRollout",
	method: "post",
	path: `${API}/rollouts/{id}/finalize`,
	tag,
	summary: "Wait for the end, at most wait_s, and get the result; may be called again",
	params: IdParams,
	query: z.object({ wait_s: z.coerce.number().min(0).max(3600).default(300) }),
	reply: RolloutResult,
	refusals: NOT_FOUND,
});

export const Aborted = z
	.object({
		aborted: z.boolean(),
		ids: z.array(z.string()).describe("The unfinished rollouts that were told to stop"),
		reason: z.string().nullable().describe("Why nothing was aborted"),
	})
	.meta({ id: "Aborted" });
export type Aborted = z.infer<typeof Aborted>;

export const abortRollout = route({
	name: "abortRollout",
	method: "post",
	path: `${API}/rollouts/{id}/abort`,
	tag,
	summary: "Stop a rollout, queued or running; what was captured is kept",
	params: IdParams,
	reply: Aborted,
	refusals: NOT_FOUND,
});

/** How many seconds a long poll may ask for. */
const LONG_POLL_MAX_S = 50;
export const waitSeconds = whole(0, LONG_POLL_MAX_S, 0);
