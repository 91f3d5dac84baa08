import { z } from "zod";
import { EndpointSpec } from "./endpoint.ts";
import { CommandResult, Phase } from "./event.ts";
import { Failure, Outcome } from "./failure.ts";
import { Intervention } from "./intervention.ts";
import { Mode, RolloutRequest, SandboxName, type StoredRequest } from "./request.ts";

export const RolloutStatus = z.enum(["queued", "running", "done"]).meta({ id: "RolloutStatus" });
export type RolloutStatus = z.infer<typeof RolloutStatus>;

/** What a finished attempt leaves besides events, calls and blobs. */
export const TraceSummary = z
	.object({
		version: z.literal(1),
		sandboxId: z.string(),
		sessionId: z.string().nullable(),
		setup: z.array(CommandResult),
		verify: z.array(CommandResult),
		agentExitCode: z.int().nullable(),
		wallS: z.number(),
		timings: z.record(z.string(), z.number()).describe("Seconds spent in each phase"),
		files: z
			.array(z.object({ path: z.string(), sizeBytes: z.int() }))
			.describe("What the workdir held at the end"),
		box: z
			.record(z.string(), z.unknown())
			.describe("How the box was built: backend, limits that hold, warm or cold"),
		untrainable: z
			.string()
			.nullable()
			.describe("Why no sample may be made of this rollout; null when the certificate decides"),
		interventions: z
			.array(Intervention)
			.optional()
			.describe("What people did while it ran, in order; the first thousand"),
	})
	.meta({ id: "TraceSummary" });
export type TraceSummary = z.infer<typeof TraceSummary>;

/** The stored state of one rollout. */
export const Rollout = z
	.object({
		version: z.literal(1),
		id: z.string(),
		taskId: z.string(),
		status: RolloutStatus,
		phase: Phase,
		attempt: z.int().describe("0 until a worker takes it"),
		handedBack: z
			.int()
			.optional()
			.describe("How many of the attempts a stopping worker handed back; they do not count as tries"),
		request: RolloutRequest.describe("Without any key"),
		groupId: z.string().nullable(),
		batchId: z.string().nullable(),
		createdAt: z.number(),
		startedAt: z.number().nullable(),
		finishedAt: z.number().nullable(),
		worker: z.string().nullable(),
		sandboxId: z.string().nullable().optional().describe("Of the current attempt, once it has one"),
		sessionId: z.string().nullable().optional().describe("OpenCode's, of the current attempt"),
		abortRequested: z.boolean(),
		outcome: Outcome.nullable(),
		reward: z.number().nullable(),
		failure: Failure.nullable(),
		calls: z.int(),
		promptTokens: z.int(),
		completionTokens: z.int(),
		summary: TraceSummary.nullable(),
	})
	.meta({ id: "Rollout" });
export type Rollout = Omit<z.infer<typeof Rollout>, "request"> & { request: StoredRequest };

/** A rollout without the task's content: what lists show. */
export const RolloutRow = Rollout.omit({ request: true, summary: true })
	.extend({
		endpoint: EndpointSpec.describe("Without any key"),
		sandbox: SandboxName,
		mode: Mode,
		priority: z.int(),
		labels: z.record(z.string(), z.string()),
	})
	.meta({ id: "RolloutRow" });
export type RolloutRow = z.infer<typeof RolloutRow>;

/** How a list is sorted. */
export const RolloutOrder = z
	.enum([
		"newest",
		"oldest",
		"highest-reward",
		"lowest-reward",
		"longest",
		"shortest",
		"most-tokens",
		"fewest-tokens",
	])
	.describe("Sorted by a figure, only those that have it are listed: rollouts that have ended");
export type RolloutOrder = z.infer<typeof RolloutOrder>;

/** n rollouts of one task (GRPO, pass@k). */
export const Group = z
	.object({
		id: z.string(),
		taskId: z.string(),
		batchId: z.string().nullable(),
		n: z.int(),
		createdAt: z.number(),
	})
	.meta({ id: "Group" });
export type Group = z.infer<typeof Group>;

/** Many groups: tasks × endpoints × n. */
export const Batch = z
	.object({ id: z.string(), size: z.int(), createdAt: z.number(), labels: z.record(z.string(), z.string()) })
	.meta({ id: "Batch" });
export type Batch = z.infer<typeof Batch>;
