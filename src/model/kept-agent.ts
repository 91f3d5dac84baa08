import { z } from "zod";
import { EndpointSpec } from "./endpoint.ts";
import { HostName } from "./host.ts";

/** Names a kept agent in commands and addresses. */
export const AgentName = z
	.string()
	.regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, "small letters, digits, dots, _ and -, at most 63")
	.meta({ id: "AgentName" });

/** What the agent's own gateway key may spend, over all its starts; absent means unlimited. */
export const KeptBudget = z
	.strictObject({
		maxCalls: z.int().positive().optional(),
		maxInputTokens: z.int().positive().optional(),
		maxOutputTokens: z.int().positive().optional(),
		maxTotalTokens: z.int().positive().optional(),
	})
	.meta({ id: "KeptBudget" });
export type KeptBudget = z.infer<typeof KeptBudget>;

export const AgentModels = z.array(z.string().min(1).max(200)).min(1).max(100);

/** Who keeps the agent's server: a process of a machine. */
export const AgentKeeperPlace = z.object({ machine: z.string(), pid: z.int(), startTime: z.string() });
export type AgentKeeperPlace = z.infer<typeof AgentKeeperPlace>;

/** An agent that lives on a machine, outside any box, under a name. Never a secret. */
export const KeptAgent = z
	.object({
		id: z.string(),
		name: AgentName,
		home: z.string().describe("Its configuration, sessions and log; its user can read them, nobody else"),
		host: HostName.nullable().describe("The machine of `paddock host list` where it lives; null: this one"),
		binary: z.string().nullable().describe("The OpenCode program; null: found when it starts"),
		via: z
			.enum(["gateway", "direct"])
			.describe("gateway: with a key of its own, captured and counted; direct: straight to the endpoint"),
		endpoint: EndpointSpec.describe("Where its models are; without any key"),
		models: AgentModels,
		budget: KeptBudget,
		spent: z.object({ calls: z.int(), promptTokens: z.int(), completionTokens: z.int() }),
		permission: z.enum(["allow", "deny", "ask"]),
		keyFingerprint: z.string().describe("Tells two keys apart, and nothing about them"),
		revokedAt: z.number().nullable().describe("Since then its key opens nothing"),
		wanted: z.enum(["running", "stopped"]),
		keptBy: AgentKeeperPlace.nullable(),
		baseUrl: z.string().nullable().describe("Of its server, while it runs"),
		needsRestart: z.boolean().describe("It was changed since it started"),
		starts: z.int().describe("Each has a log of calls of its own"),
		createdAt: z.number(),
		updatedAt: z.number(),
	})
	.meta({ id: "KeptAgent" });
export type KeptAgent = z.infer<typeof KeptAgent>;
