import { z } from "zod";

export const Purpose = z.enum(["main", "subagent", "title", "compaction"]).meta({ id: "Purpose" });
export type Purpose = z.infer<typeof Purpose>;

export const Usage = z
	.object({ promptTokens: z.int(), completionTokens: z.int(), cachedTokens: z.int().optional() })
	.meta({ id: "Usage" });
export type Usage = z.infer<typeof Usage>;

/** A token that could have been sampled instead. Of the sampled one too, where the engine lists it. */
export const Alternative = z.object({ token: z.string(), logprob: z.number() }).meta({ id: "Alternative" });
export type Alternative = z.infer<typeof Alternative>;

/**
 * How a call's prompt came about where the gateway keeps a session one chain of tokens: put together from what the model saw and
 * said before (`parent`) and the tokens that new messages add, or rendered anew by the engine, and why.
 */
export const Continuity = z
	.union([
		z.object({
			stitched: z.literal(true),
			parent: z.int().describe("The call it goes on from"),
			how: z
				.enum(["exact", "respelled", "rewritten"])
				.describe("How the agent's history spells what the model said; the model sees its own words"),
			added: z.int().describe("Tokens behind the parent's"),
		}),
		z.object({ stitched: z.literal(false), why: z.string() }),
	])
	.meta({ id: "Continuity" });
export type Continuity = z.infer<typeof Continuity>;

/** Why the first call of a session is rendered by the engine: nothing to go on from, and so no fork. */
export const FIRST_CALL = "the first call of its session";

/**
 * One request/response with the model. `completionIds`, `completionTexts` and `logprobs` have one entry for each sampled
 * token or are empty when the engine did not hand them out; `flags` says where an entry is not to be trusted.
 */
export const ModelCall = z
	.object({
		index: z.int().describe("Request order within the rollout, from 0"),
		attempt: z.int().describe("The rollout's attempt"),
		retryOf: z.int().nullable().describe("Index of the undelivered call that this one repeats"),
		superseded: z.boolean().describe("A later retry replaced this call; never trained on"),
		purpose: Purpose,
		agentName: z.string().nullable(),
		sessionId: z.string().nullable(),
		parentSessionId: z.string().nullable(),
		protocol: z.enum(["chat", "responses", "messages"]),
		dialect: z.string(),
		engine: z.string().nullable(),
		model: z.string().nullable().describe("As reported by the engine"),
		startedAt: z.number().describe("Milliseconds since the epoch"),
		firstByteMs: z.number().nullable(),
		lastByteMs: z.number().nullable(),
		request: z
			.object({
				messages: z.array(z.unknown()),
				tools: z.array(z.unknown()),
				params: z.record(z.string(), z.unknown()).describe("All other fields as sent upstream"),
				patch: z
					.record(z.string(), z.unknown())
					.describe("What the gateway changed, by field; null means removed"),
			})
			.describe("As forwarded upstream"),
		response: z
			.object({ message: z.record(z.string(), z.unknown()).nullable(), finishReason: z.string().nullable() })
			.describe("The assembled reply"),
		usage: Usage.nullable(),
		promptIds: z.array(z.int()),
		completionIds: z.array(z.int()),
		completionTexts: z.array(z.string()),
		logprobs: z.array(z.number()),
		alternatives: z
			.array(z.array(Alternative))
			.optional()
			.describe("For each sampled token the likeliest others; only when `topLogprobs` asked for them"),
		invalidTokens: z.array(z.int()).describe("Positions whose logprob is a sentinel or was clamped"),
		complete: z.boolean().describe("The engine finished and the agent got all of it"),
		upstreamStatus: z.int().nullable(),
		error: z.object({ code: z.string(), message: z.string() }).nullable(),
		losses: z.array(z.string()).describe("What the engine refused or left out, e.g. rejected flags"),
		contradictions: z
			.array(z.string())
			.optional()
			.describe("What in the engine's answer does not fit together; nothing of it can be trained on"),
		continuity: Continuity.optional().describe("Absent where nothing is stitched"),
		logprobsMode: z
			.string()
			.optional()
			.describe("Of LogprobsMode, when somebody said so or asking the engine told"),
		weightVersions: z
			.array(z.string())
			.optional()
			.describe(
				"Of the weights that sampled, when the engine or the trainer says so; several when they changed on the way",
			),
	})
	.meta({ id: "ModelCall" });
export type ModelCall = z.infer<typeof ModelCall>;

/** What engines report for "no logprob": a real one is never that low. */
export const NO_LOGPROB = -9999;
/** The logarithm of a probability, but for what an engine's floats are off by. */
const MAX_LOGPROB = 1e-5;

export function isLogprob(value: unknown): value is number {
	return typeof value === "number" && value > NO_LOGPROB && value <= MAX_LOGPROB;
}

/** What the event log and progress displays say of a finished call. */
export const CallSummary = z
	.object({
		index: z.int(),
		purpose: Purpose,
		sessionId: z.string().nullable(),
		finishReason: z.string().nullable(),
		promptTokens: z.int(),
		completionTokens: z.int(),
		complete: z.boolean(),
		latencyMs: z.number(),
		firstByteMs: z.number().nullable().optional().describe("Until the answer began; null: it did not"),
		error: z.object({ code: z.string(), message: z.string() }).nullable(),
	})
	.meta({ id: "CallSummary" });
export type CallSummary = z.infer<typeof CallSummary>;

export function toCallSummary(call: ModelCall): CallSummary {
	return {
		index: call.index,
		purpose: call.purpose,
		sessionId: call.sessionId,
		finishReason: call.response.finishReason,
		promptTokens: call.usage?.promptTokens ?? call.promptIds.length,
		completionTokens: call.usage?.completionTokens ?? call.completionIds.length,
		complete: call.complete,
		latencyMs: call.lastByteMs ?? 0,
		firstByteMs: call.firstByteMs,
		error: call.error,
	};
}
