import { z } from "zod";
import { EndpointSpec } from "../model/endpoint.ts";
import { Outcome } from "../model/failure.ts";
import { RolloutRequest } from "../model/request.ts";
import { Batch, Group, RolloutStatus } from "../model/rollout.ts";
import { TokenSums } from "../model/sample.ts";
import { Task } from "../model/task.ts";
import { Aborted, CREATING, IdempotencyHeaders, IdempotencyKey } from "./rollouts.ts";
import { API, Id, IdParams, PageQuery, pageOf, route } from "./route.ts";

const NO_GROUP = { 404: "No group has this id" };
const NO_BATCH = { 404: "No batch has this id" };

export const GroupSummary = Group.extend({
	done: z.int(),
	running: z.int(),
	queued: z.int(),
	rewardMean: z.number().nullable(),
	rewardStd: z.number().nullable(),
	passAt: z
		.record(z.string(), z.number())
		.describe("pass@k for k = 1, 2, 4, … up to n; a reward of 1 passes"),
	rollouts: z
		.array(
			z.object({
				id: z.string(),
				status: RolloutStatus,
				outcome: Outcome.nullable(),
				reward: z.number().nullable(),
			}),
		)
		.describe("In order of creation"),
}).meta({ id: "GroupSummary" });
export type GroupSummary = z.infer<typeof GroupSummary>;

export const listGroups = route({
	name: "listGroups",
	method: "get",
	path: `${API}/groups`,
	tag: "groups",
	summary: "Page through groups",
	query: PageQuery.extend({ batch_id: Id.optional() }),
	reply: pageOf(Group),
	refusals: { 400: "The cursor is not one of ours" },
});

export const getGroup = route({
	name: "getGroup",
	method: "get",
	path: `${API}/groups/{id}`,
	tag: "groups",
	summary: "Progress, reward mean and spread, pass@k",
	params: IdParams,
	reply: GroupSummary,
	refusals: NO_GROUP,
});

export const getGroupTokens = route({
	name: "getGroupTokens",
	method: "get",
	path: `${API}/groups/{id}/tokens`,
	tag: "groups",
	summary: "The certificates of the group's finished rollouts in one, weighted by tokens; reads every trace",
	params: IdParams,
	reply: TokenSums,
	refusals: NO_GROUP,
});

const MemberFigures = z
	.object({
		id: z.string(),
		reward: z.number().nullable(),
		advantage: z
			.number()
			.nullable()
			.describe("(reward − mean) / std of the group; 0 when all rewards are alike; null without a reward"),
		calls: z.int().describe("Of the agent and its sub-agents"),
		length: z.int().describe("Tokens that were sampled in them"),
		meanLogprob: z.number().nullable().describe("Null where the engine handed out none"),
		differsAt: z
			.int()
			.nullable()
			.describe(
				"The first of these calls, from 0, that was answered otherwise than the first member's; null where all were alike",
			),
	})
	.meta({ id: "MemberFigures" });
export type MemberFigures = z.infer<typeof MemberFigures>;

export const getGroupFigures = route({
	name: "getGroupFigures",
	method: "get",
	path: `${API}/groups/{id}/figures`,
	tag: "groups",
	summary: "How the members went: advantage, length, mean logprob, where they part; of the first 64",
	params: IdParams,
	reply: z.object({ items: z.array(MemberFigures).describe("In order of creation") }),
	refusals: NO_GROUP,
});

export const abortGroup = route({
	name: "abortGroup",
	method: "post",
	path: `${API}/groups/{id}/abort`,
	tag: "groups",
	summary: "Stop every unfinished rollout of the group",
	params: IdParams,
	reply: Aborted,
	refusals: NO_GROUP,
});

export const BatchCreate = RolloutRequest.omit({ task: true, endpoint: true })
	.extend({
		tasks: z.array(Task).min(1).max(10_000),
		endpoints: z.array(EndpointSpec).min(1).max(100),
		n: z.int().min(1).max(1024).default(1).describe("Rollouts for each task and endpoint"),
		idempotencyKey: IdempotencyKey.optional(),
	})
	.meta({ id: "BatchCreate" });
export type BatchCreate = z.infer<typeof BatchCreate>;

export const BatchSummary = Batch.extend({
	done: z.int(),
	running: z.int(),
	queued: z.int(),
	outcomes: z.record(z.string(), z.int()).describe("Finished rollouts by outcome"),
	rewardMean: z.number().nullable(),
}).meta({ id: "BatchSummary" });
export type BatchSummary = z.infer<typeof BatchSummary>;

export const createBatch = route({
	name: "createBatch",
	method: "post",
	path: `${API}/batches`,
	tag: "batches",
	summary: "Tasks × endpoints × n: one group for each task and endpoint",
	headers: IdempotencyHeaders,
	body: BatchCreate,
	status: 201,
	reply: z.object({
		batch: Batch,
		groupIds: z.array(z.string()).describe("One for each task and endpoint, in the order of their rollouts"),
		rolloutIds: z.array(z.string()),
	}),
	refusals: CREATING,
});

export const listBatches = route({
	name: "listBatches",
	method: "get",
	path: `${API}/batches`,
	tag: "batches",
	summary: "Page through batches",
	query: PageQuery,
	reply: pageOf(Batch),
	refusals: { 400: "The cursor is not one of ours" },
});

export const getBatch = route({
	name: "getBatch",
	method: "get",
	path: `${API}/batches/{id}`,
	tag: "batches",
	summary: "Progress of a batch; its groups are at /groups?batch_id=",
	params: IdParams,
	reply: BatchSummary,
	refusals: NO_BATCH,
});

export const getBatchTokens = route({
	name: "getBatchTokens",
	method: "get",
	path: `${API}/batches/{id}/tokens`,
	tag: "batches",
	summary: "The certificates of the batch's finished rollouts in one, weighted by tokens; reads every trace",
	params: IdParams,
	reply: TokenSums,
	refusals: NO_BATCH,
});

export const abortBatch = route({
	name: "abortBatch",
	method: "post",
	path: `${API}/batches/{id}/abort`,
	tag: "batches",
	summary: "Stop every unfinished rollout of the batch",
	params: IdParams,
	reply: Aborted,
	refusals: NO_BATCH,
});
