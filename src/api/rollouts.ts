import { z } from "zod";
import { Outcome } from "../model/failure.ts";
import { RolloutRequest } from "../model/request.ts";
import { RolloutResult } from "../model/result.ts";
import { Group, Rollout, RolloutOrder, RolloutRow, RolloutStatus } from "../model/rollout.ts";
import { Statistics } from "../model/statistics.ts";
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

/** Milliseconds since the epoch, or a date as ISO 8601 writes it. */
const Time = z
	.string()
	.max(40)
	.transform((text, context) => {
		const at = /^\d{1,15}$/.test(text) ? Number(text) : Date.parse(text);
		if (Number.isFinite(at)) return at;
		context.issues.push({
			code: "custom",
			input: text,
			message: "a date such as 2026-01-31T12:00:00Z, or milliseconds since 1970",
		});
		return z.NEVER;
	})
	.meta({ type: "string" });

const amount = z.coerce.number();

/** Which rollouts are meant, wherever many can be. */
export const FilterQuery = z.object({
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
	model: z
		.string()
		.min(1)
		.max(200)
		.optional()
		.describe("Who answered: exactly this name, or else all that have it in theirs, whatever the case"),
	text: z
		.string()
		.max(500)
		.optional()
		.describe(
			"Each word begins a word of the id, the task's id, the model, a label, or the instruction's beginning",
		),
	min_reward: amount.optional(),
	max_reward: amount.optional(),
	min_duration_s: amount.optional(),
	max_duration_s: amount.optional(),
	since: Time.optional().describe("Submitted then or later"),
	until: Time.optional().describe("Submitted then or earlier"),
});

export const listRollouts = route({
	name: "listRollouts",
	method: "get",
	path: `${API}/rollouts`,
	tag,
	summary: "Page through rollouts",
	query: PageQuery.extend({ ...FilterQuery.shape, order: RolloutOrder.default("newest") }),
	reply: pageOf(RolloutRow),
	refusals: { 400: "The cursor is not one of ours" },
});

export const getStatistics = route({
	name: "getStatistics",
	method: "get",
	path: `${API}/statistics`,
	tag,
	summary: "How finished rollouts went over time: outcomes, rewards, durations by phase, tokens",
	query: FilterQuery.extend({
		ended_since: Time.optional().describe("Without it, from the first one on"),
		ended_until: Time.optional(),
		buckets: whole(1, 500, 60).describe("At most so many stretches of time"),
	}),
	reply: Statistics,
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
