import { z } from "zod";
import { WeightVersion } from "../model/endpoint.ts";
import { Task } from "../model/task.ts";
import { API, route } from "./route.ts";

const tag = "machine";

const Health = z.object({ status: z.literal("ok"), version: z.string() }).meta({ id: "Health" });

export const getHealth = route({
	name: "getHealth",
	method: "get",
	path: `${API}/health`,
	tag,
	summary: "Whether the server answers; needs no token",
	reply: Health,
});

export const getStatus = route({
	name: "getStatus",
	method: "get",
	path: `${API}/status`,
	tag,
	summary: "How much there is to do, and who does it",
	reply: z.object({
		version: z.string(),
		uptimeS: z.number(),
		rollouts: z.object({ queued: z.int(), running: z.int(), done: z.int() }),
		conversations: z.object({ queued: z.int(), open: z.int(), closed: z.int() }),
		queueDepth: z.int(),
		queueLimit: z.int(),
		readOnly: z.boolean().describe("Nothing can be launched or changed here"),
		capacity: z.int().describe("Rollouts all workers together can run at once"),
	}),
});

const WorkerInfo = z
	.object({
		id: z.string(),
		host: z.string(),
		pid: z.int(),
		capacity: z.int().describe("Rollouts at once"),
		running: z.int().describe("Rollouts now"),
		maxConversations: z.int().describe("Conversations at once, beside them"),
		conversations: z.int().describe("Conversations that are open"),
		draining: z.boolean(),
		startedAt: z.number(),
		seenAt: z.number(),
	})
	.meta({ id: "WorkerInfo" });

export const listWorkers = route({
	name: "listWorkers",
	method: "get",
	path: `${API}/workers`,
	tag,
	summary: "The workers that announced themselves",
	reply: z.object({ items: z.array(WorkerInfo) }),
});

export const listEndpoints = route({
	name: "listEndpoints",
	method: "get",
	path: `${API}/endpoints`,
	tag,
	summary: "The catalog of model endpoints; never a key",
	reply: z.object({
		items: z.array(
			z.object({
				name: z.string(),
				configured: z.boolean(),
				baseUrl: z.string().nullable(),
				model: z.string().nullable(),
				note: z.string(),
			}),
		),
	}),
});

const Weights = z.object({ version: WeightVersion });

export const setWeights = route({
	name: "setWeights",
	method: "put",
	path: `${API}/endpoints/{name}/weights`,
	tag,
	summary:
		"A trainer's word on which weights an endpoint serves from now on. Each call that this server makes keeps it, unless the engine itself says so",
	params: z.object({
		name: z.string().min(1).max(300).describe("A name of the catalog, or host and port of an address"),
	}),
	body: Weights,
	reply: z.object({ name: z.string(), ...Weights.shape }),
});

export const listExamples = route({
	name: "listExamples",
	method: "get",
	path: `${API}/examples`,
	tag,
	summary: "The tasks that Paddock brings along, to begin with",
	reply: z.object({ items: z.array(Task) }),
});

const Check = z.object({
	name: z.string(),
	ok: z.boolean(),
	detail: z.string(),
	fix: z.string().optional(),
});

export const listSandboxes = route({
	name: "listSandboxes",
	method: "get",
	path: `${API}/sandboxes`,
	tag,
	summary: "Which sandbox backends work on this machine, and what to do for the others",
	reply: z.record(z.string(), z.object({ ok: z.boolean(), checks: z.array(Check) })),
});
