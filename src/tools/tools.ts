import type { z } from "zod";

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
	onProgress?: (progress: Progress) => void;
	/** Where callers reach this server, for links; absent over stdio. */
	origin?: string;
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
