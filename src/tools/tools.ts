import { z } from "zod";
import { readArguments } from "./arguments.ts";

export interface Progress {
	/** Grows with every report. */
	progress: number;
	message: string;
}

/** What a door gives a tool besides its arguments. */
export interface ToolContext {
	/** Fires when nobody waits for the answer any more. */
	signal: AbortSignal;
	/** Asked once the signal has fired: whether a rollout that this call started goes on without its caller. */
	whenAbandoned(): "abort" | "detach";
	onProgress?: ((progress: Progress) => void) | undefined;
	/** Where callers reach this server, for links; absent over stdio. */
	origin?: string | undefined;
	/** Which door the call came through; kept as a label of what it starts. */
	door: "mcp" | "openenv";
}

export type ToolOutput = Record<string, unknown>;

/** One thing a caller can do, the same for MCP and OpenEnv. Bad arguments throw UsageError. */
export interface Tool {
	readonly name: string;
	readonly title: string;
	readonly description: string;
	readonly input: z.ZodObject;
	readonly output: z.ZodType;
	/** May take longer than a client's patience: a caller that speaks again has given up on it. */
	readonly isLong: boolean;
	readonly readOnly: boolean;
	run(value: unknown, context: ToolContext): Promise<ToolOutput>;
}

/** A tool by its parts; arguments are read before it runs. */
export function tool<I extends z.ZodObject, O extends z.ZodObject>(
	parts: Omit<Tool, "input" | "output" | "run"> & {
		input: I;
		output: O;
		run(given: z.output<I>, context: ToolContext): Promise<z.output<O>>;
	},
): Tool {
	return { ...parts, run: (value, context) => parts.run(readArguments(parts.input, value), context) };
}

export const rolloutId = z.string().min(1).max(120).describe("As start_rollout returned it");
export const ById = z.strictObject({ rollout_id: rolloutId });

/** A rollout's status in the callers' spelling. */
export const ToolStatus = z.enum(["starting", "running", "done", "unknown"]);

export function toToolStatus(rollout: { status: "queued" | "running" | "done" }): z.infer<typeof ToolStatus> {
	return rollout.status === "queued" ? "starting" : rollout.status;
}

export const UNKNOWN_ID = "no rollout has this id";
