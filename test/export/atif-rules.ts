import { z } from "zod";

/** The rules of ATIF v1.7, strict: unknown keys are rejected everywhere. */
const Extra = z.record(z.string(), z.unknown());
const ContentPart = z.discriminatedUnion("type", [
	z.strictObject({ type: z.literal("text"), text: z.string() }),
	z.strictObject({
		type: z.literal("image"),
		source: z.strictObject({
			media_type: z.enum(["image/jpeg", "image/png", "image/gif", "image/webp"]),
			path: z.string(),
		}),
	}),
]);
const Content = z.union([z.string(), z.array(ContentPart)]);
const SubagentRef = z
	.strictObject({
		trajectory_id: z.string().optional(),
		trajectory_path: z.string().optional(),
		session_id: z.string().optional(),
		extra: Extra.optional(),
	})
	.refine((ref) => ref.trajectory_id !== undefined || ref.trajectory_path !== undefined);
const Observation = z.strictObject({
	results: z.array(
		z.strictObject({
			source_call_id: z.string().optional(),
			content: Content.optional(),
			subagent_trajectory_ref: z.array(SubagentRef).optional(),
			extra: Extra.optional(),
		}),
	),
});
const Metrics = z.strictObject({
	prompt_tokens: z.int().optional(),
	completion_tokens: z.int().optional(),
	cached_tokens: z.int().optional(),
	cost_usd: z.number().optional(),
	prompt_token_ids: z.array(z.int()).optional(),
	completion_token_ids: z.array(z.int()).optional(),
	logprobs: z.array(z.number()).optional(),
	extra: Extra.optional(),
});
const AGENT_ONLY = ["model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"] as const;

const Step = z
	.strictObject({
		step_id: z.int().min(1),
		source: z.enum(["system", "user", "agent"]),
		message: Content,
		timestamp: z.iso.datetime().optional(),
		observation: Observation.optional(),
		is_copied_context: z.boolean().optional(),
		llm_call_count: z.int().min(0).optional(),
		extra: Extra.optional(),
		model_name: z.string().optional(),
		reasoning_effort: z.union([z.string(), z.number()]).optional(),
		reasoning_content: z.string().optional(),
		tool_calls: z
			.array(
				z.strictObject({
					tool_call_id: z.string(),
					function_name: z.string(),
					arguments: Extra,
					extra: Extra.optional(),
				}),
			)
			.optional(),
		metrics: Metrics.optional(),
	})
	.superRefine((step, context) => {
		const wrong = (message: string) => context.addIssue({ code: "custom", message });
		if (step.source !== "agent" && AGENT_ONLY.some((key) => step[key] !== undefined))
			wrong("a field of agents on another step");
		const ids = step.tool_calls?.map((call) => call.tool_call_id) ?? [];
		for (const { source_call_id } of step.observation?.results ?? []) {
			if (source_call_id !== undefined && !ids.includes(source_call_id))
				wrong("a result of another step's call");
		}
		if (step.source === "agent" && step.llm_call_count === 0 && (step.metrics || step.reasoning_content))
			wrong("metrics or reasoning without an inference");
		const { metrics } = step;
		if (metrics?.logprobs && metrics.logprobs.length !== metrics.completion_token_ids?.length)
			wrong("logprobs and ids of unequal length");
	});

const FinalMetrics = z.strictObject({
	total_prompt_tokens: z.int().optional(),
	total_completion_tokens: z.int().optional(),
	total_cached_tokens: z.int().optional(),
	total_cost_usd: z.number().optional(),
	total_steps: z.int().optional(),
	extra: Extra.optional(),
});

const Base = z.strictObject({
	schema_version: z.literal("ATIF-v1.7"),
	session_id: z.string().optional(),
	trajectory_id: z.string().optional(),
	agent: z.strictObject({
		name: z.string(),
		version: z.string(),
		model_name: z.string().optional(),
		tool_definitions: z.array(Extra).optional(),
		extra: Extra.optional(),
	}),
	steps: z
		.array(Step)
		.min(1)
		.refine((steps) => steps.every((step, index) => step.step_id === index + 1), "step ids have gaps"),
	notes: z.string().optional(),
	final_metrics: FinalMetrics.optional(),
	continued_trajectory_ref: z.string().optional(),
	extra: Extra.optional(),
});

export const AtifTrajectory = Base.extend({
	subagent_trajectories: z.array(Base.extend({ trajectory_id: z.string() })).optional(),
}).superRefine((document, context) => {
	const embedded = document.subagent_trajectories?.map((child) => child.trajectory_id) ?? [];
	if (new Set(embedded).size !== embedded.length)
		context.addIssue({ code: "custom", message: "embedded ids repeat" });
	const steps = [document, ...(document.subagent_trajectories ?? [])].flatMap((each) => each.steps);
	const refs = steps
		.flatMap((step) => step.observation?.results ?? [])
		.flatMap((result) => result.subagent_trajectory_ref ?? []);
	for (const ref of refs) {
		if (ref.trajectory_id !== undefined && !embedded.includes(ref.trajectory_id))
			context.addIssue({ code: "custom", message: "a reference to a trajectory that is not there" });
	}
});
