/** ATIF v1.7, as far as it is written here. The format rejects unknown keys, so nothing else may appear. */
export interface Trajectory {
	schema_version: "ATIF-v1.7";
	session_id?: string;
	trajectory_id?: string;
	agent: {
		name: string;
		version: string;
		model_name?: string;
		tool_definitions?: unknown[];
		extra?: Record<string, unknown>;
	};
	steps: Step[];
	notes?: string;
	final_metrics?: {
		total_prompt_tokens?: number;
		total_completion_tokens?: number;
		total_cached_tokens?: number;
		total_steps?: number;
		extra?: Record<string, unknown>;
	};
	subagent_trajectories?: Trajectory[];
	extra?: Record<string, unknown>;
}

export type ContentPart =
	| { type: "text"; text: string }
	| { type: "image"; source: { media_type: string; path: string } };
export type Content = string | ContentPart[];

export interface Step {
	step_id: number;
	source: "system" | "user" | "agent";
	message: Content;
	timestamp?: string;
	model_name?: string;
	reasoning_content?: string;
	tool_calls?: ToolCall[];
	observation?: { results: ObservationResult[] };
	metrics?: StepMetrics;
	is_copied_context?: boolean;
	llm_call_count?: number;
	extra?: Record<string, unknown>;
}

export interface ToolCall {
	tool_call_id: string;
	function_name: string;
	arguments: Record<string, unknown>;
}

export interface ObservationResult {
	source_call_id?: string;
	content?: Content;
	subagent_trajectory_ref?: { trajectory_id: string; session_id: string }[];
}

export interface StepMetrics {
	prompt_tokens?: number;
	completion_tokens?: number;
	cached_tokens?: number;
	prompt_token_ids?: number[];
	completion_token_ids?: number[];
	logprobs?: number[];
	extra?: Record<string, unknown>;
}
