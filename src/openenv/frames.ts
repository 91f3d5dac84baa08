import { z } from "zod";

const dictionary = z.record(z.string(), z.unknown());

export const CallToolAction = z.strictObject({
	type: z.literal("call_tool").default("call_tool"),
	tool_name: z.string().describe("run_rollout, start_rollout, get_state, …"),
	arguments: dictionary.default({}),
	metadata: dictionary.default({}),
});

const ListToolsAction = z.strictObject({
	type: z.literal("list_tools"),
	metadata: dictionary.default({}),
});

export type Action = z.infer<typeof CallToolAction> | z.infer<typeof ListToolsAction>;

/** Anything that does not say list_tools is judged as a tool call. */
export function parseAction(data: unknown): z.ZodSafeParseResult<Action> {
	const isList = typeof data === "object" && data !== null && "type" in data && data.type === "list_tools";
	const schema: z.ZodType<Action> = isList ? ListToolsAction : CallToolAction;
	return schema.safeParse(data, { reportInput: true });
}

export const CLIENT_FRAMES = {
	reset: z.strictObject({ type: z.literal("reset"), data: dictionary.default({}) }),
	step: z.strictObject({ type: z.literal("step"), data: dictionary }),
	state: z.strictObject({ type: z.literal("state") }),
	close: z.strictObject({ type: z.literal("close") }),
	mcp: z.strictObject({ type: z.literal("mcp"), data: dictionary }),
};
export type ClientFrame = {
	[K in keyof typeof CLIENT_FRAMES]: z.infer<(typeof CLIENT_FRAMES)[K]>;
}[keyof typeof CLIENT_FRAMES];

export const ResetBody = z.looseObject({
	seed: z.int().min(0).nullish(),
	episode_id: z.string().max(255).nullish(),
});

export const StepBody = z.looseObject({
	action: dictionary,
	timeout_s: z.number().gt(0).max(86_400).nullish().describe("Give up after so many seconds"),
	request_id: z.string().max(255).nullish(),
});

export const Observation = z.looseObject({
	done: z.boolean().default(false),
	reward: z.number().nullable().default(null),
	metadata: dictionary.default({}),
	tool_name: z.string(),
	result: z.unknown(),
	error: z
		.object({
			error_type: z.enum(["execution_error", "invalid_args", "transport_error", "tool_not_found", "timeout"]),
			message: z.string(),
		})
		.nullable()
		.default(null),
});

export const State = z.looseObject({
	episode_id: z.string().nullable(),
	step_count: z.int().min(0),
});

export const StepReply = z.object({
	observation: dictionary,
	reward: z.number().nullable(),
	done: z.boolean(),
	metadata: dictionary,
});
