import { z } from "zod";
import { EndpointSpec } from "./endpoint.ts";
import { EventBody, Phase } from "./event.ts";
import { Failure } from "./failure.ts";
import { AgentName } from "./kept-agent.ts";
import { Mode, RolloutRequest, SandboxName } from "./request.ts";
import { BoxSpec, Budget, Clocks, MAX_COMMANDS, MAX_FILES, Task, TaskFile } from "./task.ts";

const DAY_S = 86_400;

/** What only a conversation has; stored beside the terms that it shares with rollouts. */
export const ConversationTerms = z
	.strictObject({
		idleS: z
			.number()
			.positive()
			.max(7 * DAY_S)
			.default(1_800)
			.describe("Closed when nothing was said for so long"),
		lifetimeS: z
			.number()
			.positive()
			.max(30 * DAY_S)
			.default(DAY_S)
			.describe("Closed so long after it was opened"),
		folder: z
			.string()
			.max(4096)
			.regex(/^\//, "must be an absolute path")
			.optional()
			.describe("A folder of the worker's machine to work in, read and written; the operator allows which"),
		keptAgent: AgentName.optional().describe(
			"Held with this kept agent of the worker's machine, not with one in a box; the operator allows it",
		),
		deliverables: z
			.array(z.string().min(1).max(1_000))
			.max(100)
			.default([])
			.describe(
				"Files of the workdir, by pattern (`**/*.pdf`), that are announced and kept when they appear",
			),
		after: z
			.array(z.string().max(100_000))
			.max(100)
			.default([])
			.describe("Shell commands in the box, run after it has ended"),
	})
	.meta({ id: "ConversationTerms" });
export type ConversationTerms = z.infer<typeof ConversationTerms>;

const shared = RolloutRequest.omit({ task: true }).shape;

/** A live agent, in a box of its own or kept on the worker's machine, to be talked to until it is closed. */
export const ConversationRequest = z
	.strictObject({
		text: z
			.string()
			.min(1)
			.max(1_000_000)
			.optional()
			.describe("The first message; more can follow at any time"),
		files: z.array(TaskFile).max(MAX_FILES).default([]).describe("Staged in the workdir before it starts"),
		before: z
			.array(z.string())
			.max(MAX_COMMANDS)
			.default([])
			.describe("Shell commands in the box, run before the agent exists"),
		...shared,
		endpoint: EndpointSpec.optional().describe("Where its model is; needed unless a kept agent has its own"),
		...ConversationTerms.shape,
		priority: z
			.int()
			.min(-100)
			.max(100)
			.default(10)
			.describe("Somebody waits: before rollouts, unless said otherwise"),
		maxAttempts: shared.maxAttempts.default(5),
		clocks: Clocks.prefault({}),
		budget: Budget.extend({ maxCalls: z.int().positive().default(10_000) }).prefault({}),
		box: BoxSpec.prefault({}),
	})
	.refine(({ endpoint, keptAgent }) => (endpoint === undefined) === (keptAgent !== undefined), {
		path: ["endpoint"],
		message: "one of endpoint and keptAgent is needed, not both: a kept agent has its own",
	})
	.meta({ id: "ConversationRequest" });
export type ConversationRequest = z.infer<typeof ConversationRequest>;

/** A conversation without an opening word has a default instruction, without any framing as a task. */
const NO_TASK = "Talk with the person who writes to you, and help with what they ask.";
const TASK_ID = "conversation";

/** As workers read it: the box to open is a task's, the rest are terms. */
export function toRequest(
	request: ConversationRequest,
	endpoint: EndpointSpec = request.endpoint!,
): { request: RolloutRequest; terms: ConversationTerms } {
	const {
		text: _text,
		files,
		before,
		clocks,
		budget,
		box,
		idleS,
		lifetimeS,
		folder,
		keptAgent,
		deliverables,
		after,
		...rest
	} = request;
	const task = Task.parse({ id: TASK_ID, instruction: NO_TASK, files, setup: before, clocks, budget, box });
	return {
		request: { ...rest, endpoint, task },
		terms: { idleS, lifetimeS, folder, keptAgent, deliverables, after },
	};
}

/** Why a conversation is over. */
export const ConversationEnd = z
	.enum(["asked", "idle", "lifetime", "budget", "failed"])
	.meta({ id: "ConversationEnd" });
export type ConversationEnd = z.infer<typeof ConversationEnd>;

/** `queued`: waits for a worker, and hears what is said when it has one. */
export const ConversationState = z.enum(["queued", "open", "closed"]).meta({ id: "ConversationState" });
export type ConversationState = z.infer<typeof ConversationState>;

export const ConversationRow = z
	.object({
		version: z.literal(1),
		id: z.string(),
		status: ConversationState,
		phase: Phase.describe("agent: it can be talked to"),
		closed: ConversationEnd.nullable().describe("Why it is over"),
		failure: Failure.nullable(),
		attempt: z.int().describe("Rises whenever another worker opens it"),
		createdAt: z.number(),
		startedAt: z.number().nullable(),
		finishedAt: z.number().nullable(),
		worker: z.string().nullable(),
		sandboxId: z.string().nullable(),
		sessionId: z.string().nullable().describe("OpenCode's; stays the same when it is opened again"),
		endpoint: EndpointSpec.describe("Without any key"),
		sandbox: SandboxName.nullable().describe("Null for a kept agent: it has no box"),
		keptAgent: z.string().nullable().describe("The kept agent that it is held with"),
		mode: Mode,
		priority: z.int(),
		labels: z.record(z.string(), z.string()),
		lastSeq: z.int().describe("Of its newest event"),
		calls: z.int(),
		promptTokens: z.int(),
		completionTokens: z.int(),
	})
	.meta({ id: "ConversationRow" });
export type ConversationRow = z.infer<typeof ConversationRow>;

/** A declared file, as it was kept last. */
export const Deliverable = z
	.object({ path: z.string(), sizeBytes: z.int(), sha256: z.string(), at: z.number() })
	.meta({ id: "Deliverable" });
export type Deliverable = z.infer<typeof Deliverable>;

export const ConversationEvent = z
	.object({
		conversationId: z.string(),
		seq: z.int().describe("From 1, gapless within the conversation"),
		at: z.number(),
	})
	.and(EventBody)
	.meta({ id: "ConversationEvent" });
export type ConversationEvent = z.infer<typeof ConversationEvent>;
