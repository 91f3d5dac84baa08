import { z } from "zod";

/** The wire spelling of a finished rollout, the same on the command line, over MCP, OpenEnv and HTTP. */
const CommandRow = z.object({
	cmd: z.string(),
	exit_code: z.int(),
	stdout: z.string(),
	stderr: z.string(),
	duration_s: z.number(),
});

export const ProxyTurn = z
	.object({
		turn: z.int(),
		purpose: z.string(),
		session_id: z.string().nullable(),
		parent_session_id: z.string().nullable(),
		finish_reason: z.string().nullable(),
		request: z.record(z.string(), z.unknown()),
		response: z.record(z.string(), z.unknown()),
		prompt_token_ids: z.array(z.int()),
		completion_tokens: z.array(z.string()),
		completion_token_ids: z.array(z.int()),
		per_token_logps: z.array(z.number()),
		latency_s: z.number(),
		timestamp: z.number(),
		upstream_status: z.int().nullable(),
		upstream_error: z.record(z.string(), z.unknown()).nullable(),
	})
	.meta({ id: "ProxyTurn" });
export type ProxyTurn = z.infer<typeof ProxyTurn>;

export const RolloutResult = z
	.object({
		rollout_id: z.string(),
		task_id: z.string(),
		sandbox_id: z.string(),
		reward: z.number().nullable(),
		outcome: z.string().nullable(),
		failure: z
			.object({ boundary: z.string(), code: z.string(), message: z.string(), retryable: z.boolean() })
			.nullable(),
		attempt: z.int(),
		agent_exit_code: z.int().nullable(),
		exit_code: z.int().describe("The agent's; -1 when it has none (yet)"),
		wall_s: z.number(),
		mode: z.string(),
		untrainable: z
			.string()
			.nullable()
			.describe(
				"Why no sample may be made of it, whatever its tokens prove; null when the certificate decides",
			),
		setup_results: z.array(CommandRow),
		verify_results: z.array(CommandRow),
		test_exit_code: z.int().nullable(),
		verifier_stdout: z.string(),
		verifier_stderr: z.string(),
		proxy_turns: z.array(ProxyTurn),
		files: z.record(z.string(), z.string()).describe("By absolute path"),
		workdir_files: z.record(z.string(), z.string()).describe("By absolute path"),
		files_extra: z.array(z.string()).describe("Absolute paths of what is not here whole"),
		agent_log_tail: z.string(),
		proxy_log_tail: z.string(),
		install_log_tail: z.string(),
		error: z.string().nullable(),
	})
	.meta({ id: "RolloutResult" });
export type RolloutResult = z.infer<typeof RolloutResult>;
