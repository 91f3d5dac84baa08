/** What every step answers: over /ws as `data`, over HTTP as the body. */
export interface Triple {
	observation: Record<string, unknown>;
	reward: number | null;
	done: boolean;
	/** Also inside the observation: clients differ in where they look. */
	metadata: Record<string, unknown>;
}

/** The only types that clients accept. */
export type ToolErrorType =
	| "execution_error"
	| "invalid_args"
	| "transport_error"
	| "tool_not_found"
	| "timeout";

export interface ToolError {
	error_type: ToolErrorType;
	message: string;
}

export type ServerFrame =
	| { type: "observation"; data: Triple }
	| { type: "state"; data: Record<string, unknown> }
	| { type: "error"; data: { message: string; code: string } & Record<string, unknown> }
	| { type: "mcp"; data: Record<string, unknown> };

/** What a tool call needs from the door it came through. */
export interface CallOptions {
	/** Fires when nobody waits for the answer any more. */
	signal: AbortSignal;
	origin?: string | undefined;
	timeoutS?: number | undefined;
}
