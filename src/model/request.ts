import { z } from "zod";
import type { ConversationTerms } from "./conversation.ts";
import { ContinuityChoice, EndpointSpec } from "./endpoint.ts";
import { PermissionRule } from "./permission.ts";
import { Task } from "./task.ts";

export const SandboxBackend = z
	.enum(["local", "docker", "e2b", "ssh", "process"])
	.meta({ id: "SandboxBackend" });
export type SandboxBackend = z.infer<typeof SandboxBackend>;

export const WHICH_SANDBOX = `expected one of ${SandboxBackend.options.join(", ")}, or ssh:<host>`;

/** A backend, or `ssh:<host>`: boxes on the machine that `paddock host add` gave this name. */
export const SandboxName = z
	.union([SandboxBackend, z.templateLiteral(["ssh:", z.string().regex(/^[a-z0-9][a-z0-9._-]{0,62}$/)])], {
		error: WHICH_SANDBOX,
	})
	.meta({ id: "SandboxName" });
export type SandboxName = z.infer<typeof SandboxName>;

export const Mode = z.enum(["transparent_proxy", "black_box"]).meta({ id: "Mode" });
export type Mode = z.infer<typeof Mode>;

/**
 * How calls are patched on their way to the engine. The agent has no say in it. Whatever is absent is sent as the value that
 * changes nothing, to engines whose tokens can be trained on; to the others it is not sent.
 */
export const Sampling = z
	.strictObject({
		maxTokensCap: z.int().default(4096).describe("Clamp on max_tokens of each call; 0 or less means no cap"),
		topLogprobs: z.int().min(0).max(20).default(0),
		disableThinking: z.boolean().optional().describe("Absent: the endpoint's default"),
		temperature: z.number().min(0).max(10).optional(),
		topP: z.number().gt(0).max(1).optional(),
		topK: z.int().min(-1).optional().describe("-1 or 0: no limit"),
		minP: z.number().min(0).max(1).optional(),
		presencePenalty: z.number().min(-2).max(2).optional(),
		frequencyPenalty: z.number().min(-2).max(2).optional(),
		repetitionPenalty: z.number().gt(0).max(10).optional(),
		seed: z.int().optional(),
		continuity: ContinuityChoice.optional().describe(
			"auto: a session stays one chain of tokens where the engine allows it. Absent: as the endpoint says, else auto",
		),
		keepReasoning: z
			.boolean()
			.optional()
			.describe("Go on from a thinking reply also after a person's words, where templates drop the thoughts"),
	})
	.meta({ id: "Sampling" });
export type Sampling = z.infer<typeof Sampling>;

/** How the agent is set up. */
export const AgentOptions = z
	.strictObject({
		driver: z.enum(["serve", "run"]).default("serve"),
		title: z.boolean().default(false).describe("Let OpenCode ask the model for a session title"),
		compaction: z.boolean().default(false).describe("Let OpenCode summarise when the context is full"),
		contextTokens: z.int().positive().default(128_000),
		outputTokens: z.int().positive().default(8_192),
		permission: z
			.enum(["allow", "deny", "ask"])
			.default("allow")
			.describe("For what no rule decides; ask: permission requests wait for an answer"),
		permissionRules: z
			.array(PermissionRule)
			.max(1_000)
			.default([])
			.describe("By tool and pattern; the last that fits decides"),
		permissionDeadlineS: z
			.number()
			.positive()
			.max(86_400)
			.default(300)
			.describe("How long a person may take"),
		permissionDefault: z.enum(["allow", "deny"]).default("deny").describe("When nobody decided in time"),
	})
	.meta({ id: "AgentOptions" });
export type AgentOptions = z.infer<typeof AgentOptions>;

/** Everything one rollout needs, self-contained, so that any worker can take it. */
/** Each is found by an index, and copied to every rollout of a batch. */
const MAX_LABELS = 64;

export const RolloutRequest = z
	.strictObject({
		task: Task,
		endpoint: EndpointSpec,
		sandbox: SandboxName.default("local"),
		mode: Mode.default("transparent_proxy"),
		agent: AgentOptions.prefault({}),
		sampling: Sampling.prefault({}),
		priority: z.int().min(-100).max(100).default(0),
		labels: z
			.record(z.string().max(100), z.string().max(500))
			.refine((labels) => Object.keys(labels).length <= MAX_LABELS, `at most ${MAX_LABELS} labels`)
			.default({})
			.describe(`At most ${MAX_LABELS}`),
		maxAttempts: z
			.int()
			.min(1)
			.max(100)
			.default(2)
			.describe("Infrastructure failures and crashes are tried again; a bad task is not"),
	})
	.meta({ id: "RolloutRequest" });
export type RolloutRequest = z.infer<typeof RolloutRequest>;

/** What a conversation's request has of its own, as it is stored. */
export interface StoredTerms extends ConversationTerms {
	/** What was said with the request: stored with it, so that neither is without the other. */
	opening?: { text: string; by: string } | undefined;
	/** It came with a key, which is erased at its end. */
	keyed: boolean;
	/** The folder was named by a program of the operator's own, on the only machine there is. */
	isOwnFolder?: boolean | undefined;
}

export type StoredRequest = RolloutRequest & { conversation?: StoredTerms | undefined };

/** All of a request but its task: small, whatever the task's files weigh. */
export type RolloutTerms = Omit<StoredRequest, "task">;
