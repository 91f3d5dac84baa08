import { z } from "zod";
import { Purpose } from "./call.ts";

export const BreakReason = z
	.enum([
		"resampled",
		"system_changed",
		"tools_changed",
		"compaction",
		"step_limit_note",
		"retry_leftover",
		"dropped_reasoning",
		"reserialised_tool_call",
		"history_changed",
		"retokenised",
	])
	.meta({ id: "BreakReason" });
export type BreakReason = z.infer<typeof BreakReason>;

/** Why a call could not go on with the branch before it. */
export const Break = z
	.object({
		reason: BreakReason,
		position: z.int().describe("The first token position that differs"),
		call: z.int().describe("The call that starts the new branch"),
		previousCall: z.int().describe("The call it would have followed"),
	})
	.meta({ id: "Break" });
export type Break = z.infer<typeof Break>;

/**
 * A branch as training data. `ids`, `mask` and `logprobs` have one length; mask is 1 on tokens the engine sampled and
 * nowhere else; logprobs are 0 where the mask is 0. Over all samples of a rollout each sampled token has mask 1 once.
 */
export const Sample = z
	.object({
		index: z.int().describe("Within the rollout, from 0"),
		purpose: Purpose,
		sessionId: z.string().nullable(),
		parentSessionId: z.string().nullable(),
		agentName: z.string().nullable(),
		calls: z.array(z.int()).describe("Indexes of the calls on this path"),
		promptLength: z.int().describe("Tokens before the first sampled one: the first call's prompt"),
		ids: z.array(z.int()),
		mask: z.array(z.union([z.literal(0), z.literal(1)])),
		logprobs: z.array(z.number()),
		finishReason: z.string().nullable().describe("Of the last call; `length` means cut at the token limit"),
		weightVersions: z.array(z.string()),
		startedBy: Break.nullable().describe("Null when the branch is the beginning of its session"),
	})
	.meta({ id: "Sample" });
export type Sample = z.infer<typeof Sample>;

/** What becomes of calls after a person steered: trained on like all others, context without loss, or left out. */
export const InterventionHandling = z.enum(["keep", "mask", "drop"]).meta({ id: "InterventionHandling" });
export type InterventionHandling = z.infer<typeof InterventionHandling>;

/** What can be proven about a rollout's tokens. It fails closed: whatever cannot be shown makes it untrainable. */
export const Certificate = z
	.object({
		version: z.literal(1),
		trainable: z.boolean(),
		reasons: z.array(z.string()).describe("Why not, in words; empty when trainable"),
		notes: z.array(z.string()).describe("Worth knowing, but no obstacle"),
		calls: z.record(Purpose, z.int()).describe("Captured calls by purpose"),
		completeness: z
			.object({
				capturedTokens: z.int().describe("Completion tokens captured, over all calls"),
				billedTokens: z.int().describe("Completion tokens the engine reported, over all calls"),
				incompleteCalls: z.int(),
				supersededCalls: z.int(),
			})
			.describe("Captured against billed"),
		lengthsEqual: z.boolean().describe("Ids, logprobs and usage agree on every trained call"),
		sentinels: z.int().describe("Tokens whose logprob is a sentinel, not a number"),
		continuity: z.object({
			samples: z.int(),
			breaks: z.partialRecord(BreakReason, z.int()).describe("How often branches broke, by reason"),
			firstBreaks: z.array(Break).describe("The first 100 in full"),
			wentOn: z
				.int()
				.describe("Calls whose prompt starts with all tokens before it; beside the breaks, all that could"),
			stitched: z
				.int()
				.describe("Calls whose prompt was put together from the tokens before, so that it goes on from them"),
			plain: z
				.record(z.string(), z.int())
				.describe("Calls that the engine rendered anew although their session had spoken before, by why"),
		}),
		trainedTokens: z.int().describe("Tokens with mask 1"),
		tokensToTrainOver: z
			.int()
			.describe("The length of all samples together: what a trainer has to compute for them"),
		interventions: z
			.object({
				count: z.int(),
				kinds: z.record(z.string(), z.int()).describe("How often each kind"),
				firstCall: z.int().nullable().describe("Calls from this index on were steered by a person"),
				handling: InterventionHandling,
			})
			.optional()
			.describe("What people did while it ran; absent when nobody did anything"),
		mainShare: z
			.number()
			.describe("The share of them in the main agent's largest sample: what a trainer gets that takes one"),
		engines: z.array(z.string()),
		models: z.array(z.string()),
		logprobsModes: z.array(z.string()),
		weightVersions: z.array(z.string()),
		sampling: z
			.array(z.record(z.string(), z.unknown()))
			.describe("The distinct sampling parameters, as sent"),
	})
	.meta({ id: "Certificate" });
export type Certificate = z.infer<typeof Certificate>;

/** The certificates of many rollouts in one; shares are weighted by tokens and calls, not by rollouts. */
export const TokenSums = z
	.object({
		rollouts: z.int().describe("Finished ones"),
		trainable: z.int().describe("Of them, by their certificates"),
		samples: z.int(),
		trainedTokens: z.int(),
		tokensToTrainOver: z.int(),
		mainShare: z
			.number()
			.nullable()
			.describe("The share of the trained tokens that is in their rollouts' main samples; null without any"),
		continuity: z
			.number()
			.nullable()
			.describe("Calls that went on ÷ calls whose session had spoken before; null when there was none"),
		stitched: z.int(),
		plain: z.record(z.string(), z.int()).describe("Calls that were rendered anew, by why"),
		breaks: z.partialRecord(BreakReason, z.int()),
	})
	.meta({ id: "TokenSums" });
export type TokenSums = z.infer<typeof TokenSums>;
