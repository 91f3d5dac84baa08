import { z } from "zod";

/** How an engine hands out token ids and logprobs; `auto` finds out by a probe. */
export const DialectName = z
	.enum(["auto", "vllm", "sglang", "openai", "hf_router", "plain"])
	.meta({ id: "DialectName" });
export type DialectName = z.infer<typeof DialectName>;

/**
 * What an engine's logprobs are of: the model's own distribution, the one after temperature (SGLang), or the one after
 * temperature, cut-offs and penalties. Engines do not tell: it is said, or found out by asking.
 */
export const LogprobsMode = z
	.enum(["raw_logprobs", "scaled_logprobs", "processed_logprobs"])
	.meta({ id: "LogprobsMode" });
export type LogprobsMode = z.infer<typeof LogprobsMode>;

/** The name a trainer gives to the weights that an endpoint serves, such as its step. */
export const WeightVersion = z
	.string()
	.min(1)
	.max(200)
	.meta({ id: "WeightVersion" })
	.describe("Which weights the endpoint serves; what the engine itself says wins");

/** Whether sessions stay one chain of tokens where the engine allows it. */
export const ContinuityChoice = z.enum(["auto", "off"]).meta({ id: "ContinuityChoice" });
export type ContinuityChoice = z.infer<typeof ContinuityChoice>;

/** Where a rollout's model calls should go, as the caller said it. Resolved where the rollout runs. */
export const EndpointSpec = z
	.discriminatedUnion("type", [
		z.strictObject({
			type: z.literal("policy"),
			policy: z.string().describe("oracle, noop, cheat-*, replay"),
			trace: z.string().optional().describe("For replay: the rollout to play back"),
		}),
		z.strictObject({
			type: z.literal("named"),
			name: z.string().describe("A name of the catalog: vllm, openai, hf_router, scripted, or cred:<label>"),
			baseUrl: z.string().optional(),
			model: z.string().optional(),
			apiKey: z.string().optional(),
			dialect: DialectName.optional(),
			logprobsMode: LogprobsMode.optional(),
			weightVersion: WeightVersion.optional(),
			continuity: ContinuityChoice.optional().describe("For requests whose sampling says nothing of it"),
		}),
		z.strictObject({
			type: z.literal("url"),
			baseUrl: z.string(),
			model: z.string(),
			apiKey: z.string().optional(),
			dialect: DialectName.default("auto"),
			logprobsMode: LogprobsMode.optional(),
			weightVersion: WeightVersion.optional(),
			continuity: ContinuityChoice.optional().describe("For requests whose sampling says nothing of it"),
		}),
	])
	.meta({ id: "EndpointSpec" });
export type EndpointSpec = z.infer<typeof EndpointSpec>;

/** Who answers, in a word: what lists show, and are filtered by. */
export function modelOf(endpoint: EndpointSpec): string {
	if (endpoint.type === "policy") return endpoint.policy;
	if (endpoint.type === "named") return endpoint.model ?? endpoint.name;
	return endpoint.model;
}

/** A key that changes while calls go on. */
export interface AccessTokens {
	/** The one for the next call: another than the one that was refused, if one was. */
	fresh(refused?: string | null): Promise<string>;
}

/** A resolved endpoint: holds the real key, exists only in memory, is never stored nor printed. */
export interface Endpoint {
	name: string;
	/** Ends in /v1. */
	baseUrl: string;
	model: string;
	apiKey?: string | undefined;
	/** For a login: `apiKey` is what it was in the beginning, calls ask for the one of now. */
	tokens?: AccessTokens | undefined;
	dialect: DialectName;
	logprobsMode?: LogprobsMode | undefined;
	weightVersion?: string | undefined;
	continuity?: ContinuityChoice | undefined;
	disableThinking: boolean;
}
