import { randomUUID } from "node:crypto";
import { RolloutError, UsageError } from "../errors.ts";
import type { Log } from "../log.ts";
import { untilTimeout } from "../model/duration.ts";
import { toText } from "../tools/result.ts";
import { type Toolbox, toJsonSchema } from "../tools/toolbox.ts";
import type { Tool, ToolOutput } from "../tools/tools.ts";
import type { CallOptions, ToolError, Triple } from "./openenv.ts";

export interface EnvironmentOptions {
	/** Whether a rollout that lost its caller goes on. */
	whenAbandoned: () => "abort" | "detach";
	log?: Log | undefined;
}

export type CallAnswer = { output: ToolOutput; text: string } | { error: ToolError };

/** What one client holds: its episode, and the tools. */
export class Environment {
	readonly id = randomUUID();
	readonly #tools: Toolbox;
	readonly #options: EnvironmentOptions;
	#episodeId: string = randomUUID();
	#stepCount = 0;
	#rolloutsCompleted = 0;
	#last: { reward: number | null; taskId: string; sandboxId: string; rolloutId: string } | null = null;
	#inFlight = 0;
	#usedAt = Date.now();

	constructor(tools: Toolbox, options: EnvironmentOptions) {
		this.#tools = tools;
		this.#options = options;
	}

	/** How long nothing was asked of it; zero while a call is under way. */
	idleMs(now: number): number {
		return this.#inFlight > 0 ? 0 : now - this.#usedAt;
	}

	isLong(toolName: string): boolean {
		return this.#tools.get(toolName)?.isLong ?? false;
	}

	/** Begins an episode. Of what callers may send only `episode_id` matters here. */
	reset(data: Record<string, unknown>): Triple {
		this.#usedAt = Date.now();
		const { episode_id: given } = data;
		this.#episodeId = typeof given === "string" && given !== "" && given.length <= 255 ? given : randomUUID();
		this.#stepCount = 0;
		this.#rolloutsCompleted = 0;
		this.#last = null;
		const metadata = { status: "ready", message: "call run_rollout, or start_rollout for long ones" };
		return { observation: { metadata }, reward: null, done: false, metadata };
	}

	state(): Record<string, unknown> {
		return {
			episode_id: this.#episodeId,
			step_count: this.#stepCount,
			rollouts_completed: this.#rolloutsCompleted,
			last_reward: this.#last?.reward ?? null,
			last_task_id: this.#last?.taskId ?? null,
			last_sandbox_id: this.#last?.sandboxId ?? null,
			last_rollout_id: this.#last?.rolloutId ?? null,
		};
	}

	listTools(): Triple {
		this.#usedAt = Date.now();
		const tools = [...this.#tools.values()].map((tool) => ({
			name: tool.name,
			description: tool.description,
			input_schema: toJsonSchema(tool.input),
		}));
		return { observation: { tools, metadata: {} }, reward: null, done: false, metadata: {} };
	}

	async step(toolName: string, value: unknown, options: CallOptions): Promise<Triple> {
		const answer = await this.call(toolName, value, options);
		if ("error" in answer) {
			const metadata = {};
			return {
				observation: { tool_name: toolName, result: null, error: answer.error, metadata },
				reward: null,
				done: false,
				metadata,
			};
		}
		const { output, text } = answer;
		const metadata = toMetadata(output);
		return {
			observation: { tool_name: toolName, result: toEnvelope(text), error: null, metadata },
			reward: typeof output.reward === "number" ? output.reward : null,
			done: hasEnded(output),
			metadata,
		};
	}

	/** Runs a tool; what goes wrong in it is an answer, too. Rejects only when the caller gave up. */
	async call(toolName: string, value: unknown, options: CallOptions): Promise<CallAnswer> {
		const tool = this.#tools.get(toolName);
		this.#stepCount += 1;
		if (tool === undefined)
			return {
				error: { error_type: "tool_not_found", message: `Unknown tool: '${toolName.slice(0, 100)}'` },
			};
		this.#inFlight += 1;
		try {
			return await this.#run(tool, value, options);
		} finally {
			this.#inFlight -= 1;
			this.#usedAt = Date.now();
		}
	}

	async #run(tool: Tool, value: unknown, options: CallOptions): Promise<CallAnswer> {
		const timeoutS = options.timeoutS ?? patienceFor(value);
		const signal = untilTimeout(timeoutS * 1000, options.signal);
		try {
			const output = await tool.run(value, {
				signal,
				whenAbandoned: this.#options.whenAbandoned,
				door: "openenv",
				origin: options.origin,
			});
			const text = toText(output);
			this.#remember(output);
			return { output, text };
		} catch (error) {
			if (options.signal.aborted) throw error;
			if (signal.aborted)
				return {
					error: {
						error_type: "timeout",
						message: `Tool '${tool.name}' timed out after ${timeoutS} seconds`,
					},
				};
			return { error: this.#toToolError(tool.name, error) };
		}
	}

	#remember(output: ToolOutput): void {
		if (!hasEnded(output) || output.rollout_id === this.#last?.rolloutId) return;
		this.#rolloutsCompleted += 1;
		this.#last = {
			reward: typeof output.reward === "number" ? output.reward : null,
			taskId: String(output.task_id),
			sandboxId: String(output.sandbox_id ?? ""),
			rolloutId: String(output.rollout_id),
		};
	}

	#toToolError(toolName: string, error: unknown): ToolError {
		const prefix = `Error calling tool '${toolName}'`;
		if (error instanceof UsageError) {
			const error_type = OUR_LIMITS.has(error.code) ? "execution_error" : "invalid_args";
			return { error_type, message: `${prefix}: ${error.message}` };
		}
		if (error instanceof RolloutError)
			return { error_type: "execution_error", message: `${prefix}: ${error.message}` };
		this.#options.log?.error({ err: error, tool: toolName }, "bug in a tool");
		return {
			error_type: "execution_error",
			message: `${prefix}: a bug on our side; the server's log has it`,
		};
	}
}

/** What callers of the reference environment count on; an agent that may work longer is waited for. */
const STEP_TIMEOUT_S = 900;
const AROUND_AGENT_S = 300;

function patienceFor(value: unknown): number {
	const asked = (value as { agent_timeout_s?: unknown } | null | undefined)?.agent_timeout_s;
	return Math.max(STEP_TIMEOUT_S, typeof asked === "number" ? asked + AROUND_AGENT_S : 0);
}

/** Refusals that no other argument would have avoided. */
const OUR_LIMITS = new Set(["queue_full", "result_too_large"]);

/** The text travels once: clients read `data` when it is there, and messages have a limit. */
export function toEnvelope(text: string): Record<string, unknown> {
	return { content: [], structured_content: null, meta: null, data: text, is_error: false };
}

/** Only a rollout that has ended carries an outcome. */
function hasEnded(output: ToolOutput): boolean {
	return typeof output.outcome === "string";
}

function toMetadata(output: ToolOutput): Record<string, unknown> {
	const { rollout_id, task_id, outcome } = output;
	return {
		rollout_id,
		task_id,
		...(typeof outcome === "string" ? { outcome } : {}),
	};
}
