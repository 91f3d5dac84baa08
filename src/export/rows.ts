import { z } from "zod";
import type { ModelCall } from "../model/call.ts";
import type { Rollout } from "../model/rollout.ts";
import { Break, type Certificate, type Sample } from "../model/sample.ts";
import { SampleBuilder, type SampleOptions } from "./samples.ts";

/** One sample in the trainers' spelling: a line of `jsonl`, a row of `parquet`. */
export const SampleRow = z
	.strictObject({
		rollout_id: z.string(),
		task_id: z.string(),
		group_id: z.string().nullable(),
		attempt: z.int(),
		outcome: z.string().nullable(),
		reward: z.number().nullable(),
		advantage: z
			.number()
			.nullable()
			.describe(
				"(reward − mean) / std of the group; null without group or reward; the same on all rows of a rollout",
			),
		sample: z.int().describe("Index within the rollout"),
		samples: z
			.int()
			.describe("Rows of this rollout: average the loss over them, or rollouts that fork weigh more"),
		rollout_trained_tokens: z.int().describe("Sum of the loss masks of all rows of this rollout"),
		purpose: z.string(),
		session_id: z.string().nullable(),
		parent_session_id: z.string().nullable(),
		calls: z.array(z.int()),
		prompt_length: z.int(),
		token_ids: z.array(z.int()),
		loss_mask: z.array(z.int()),
		logprobs: z.array(z.number()),
		finish_reason: z.string().nullable(),
		model: z.string().nullable(),
		engine: z.string().nullable(),
		weight_versions: z.array(z.string()),
		break: Break.nullable(),
		trainable: z.boolean(),
		untrainable_reasons: z.array(z.string()),
	})
	.meta({ id: "SampleRow" });
export type SampleRow = z.infer<typeof SampleRow>;

/** What TRL's `rollout_func` returns for one completion; further keys reach its reward functions. */
export const TrlRow = z
	.strictObject({
		prompt_ids: z.array(z.int()),
		completion_ids: z.array(z.int()).describe("Model and tool tokens alike"),
		logprobs: z.array(z.number()).describe("One for each completion id; 0 where env_mask is 0"),
		env_mask: z.array(z.int()).describe("1 on tokens of the model"),
		reward: z.number(),
		advantage: z.number().nullable(),
		rollout_id: z.string(),
		task_id: z.string(),
		group_id: z.string().nullable(),
	})
	.meta({ id: "TrlRow" });
export type TrlRow = z.infer<typeof TrlRow>;

/** Opens a rollout's calls anew each time: a certificate is needed before the first sample may leave. */
export type OpenCalls = () => AsyncIterable<ModelCall>;

/** What may be proven of a rollout's tokens; reads the calls once. */
export async function certify(calls: OpenCalls, options: SampleOptions): Promise<Certificate> {
	const builder = new SampleBuilder(options);
	for await (const call of calls()) builder.add(call);
	return builder.finish().certificate;
}

/** The samples of a certified rollout, each as soon as its branch is closed. */
export async function* sampleRows(
	rollout: Rollout,
	calls: OpenCalls,
	certificate: Certificate,
	advantage: number | null,
	options: SampleOptions,
): AsyncGenerator<SampleRow> {
	const builder = new SampleBuilder(options);
	const toRow = (sample: Sample) => toSampleRow(rollout, sample, certificate, advantage);
	for await (const call of calls()) yield* builder.add(call).map(toRow);
	yield* builder.finish().samples.map(toRow);
}

function toSampleRow(
	rollout: Rollout,
	sample: Sample,
	certificate: Certificate,
	advantage: number | null,
): SampleRow {
	return {
		rollout_id: rollout.id,
		task_id: rollout.taskId,
		group_id: rollout.groupId,
		attempt: rollout.attempt,
		outcome: rollout.outcome,
		reward: rollout.reward,
		advantage,
		sample: sample.index,
		samples: certificate.continuity.samples,
		rollout_trained_tokens: certificate.trainedTokens,
		purpose: sample.purpose,
		session_id: sample.sessionId,
		parent_session_id: sample.parentSessionId,
		calls: sample.calls,
		prompt_length: sample.promptLength,
		token_ids: sample.ids,
		loss_mask: sample.mask,
		logprobs: sample.logprobs,
		finish_reason: sample.finishReason,
		model: certificate.models[0] ?? null,
		engine: certificate.engines[0] ?? null,
		weight_versions: sample.weightVersions,
		break: sample.startedBy,
		trainable: certificate.trainable,
		untrainable_reasons: certificate.reasons,
	};
}

/** Null for a rollout without reward: such a row cannot be scored. */
export function toTrlRow(row: SampleRow): TrlRow | null {
	if (row.reward === null) return null;
	const from = row.prompt_length;
	return {
		prompt_ids: row.token_ids.slice(0, from),
		completion_ids: row.token_ids.slice(from),
		logprobs: row.logprobs.slice(from),
		env_mask: row.loss_mask.slice(from),
		reward: row.reward,
		advantage: row.advantage,
		rollout_id: row.rollout_id,
		task_id: row.task_id,
		group_id: row.group_id,
	};
}
