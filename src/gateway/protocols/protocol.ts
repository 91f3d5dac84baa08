import type { ModelCall, Usage } from "../../model/call.ts";
import type { SamplingName } from "../../model/sampling.ts";
import type { PatchInput } from "../patch.ts";
import type { RequestDraft } from "../request-draft.ts";
import type { Rule } from "./shape.ts";
import type { SseEvent } from "./sse.ts";
import type { TokenColumns } from "./tokens.ts";

export type JsonObject = Record<string, unknown>;

/** What the agent did not ask for and therefore must not see; ids and logprobs it never sees. */
export interface Hidden {
	usage: boolean;
}

/** What one event means for the agent. */
export interface Step {
	/** Exactly what the agent gets; null when nothing. */
	forward: string | Buffer | null;
	/** From here on the reply is over: nothing more is released before the call is recorded. */
	last: boolean;
}

/** The reply so far, put together from the engine's events. Throws UpstreamFault when the engine breaks its word. */
export interface EngineAnswer {
	take(event: SseEvent): Step;
	/** The engine's whole, unstreamed answer; returns what the agent gets of it. */
	takeWhole(body: JsonObject): JsonObject;
	/** The whole answer as events, for an agent that asked for a stream; only where engines cannot stream everything. */
	toEvents?(body: JsonObject): string[];
	/** The stream is over: whatever is missing for a proper end, or a fault when it was not one. */
	close(): string[];
	/** The engine said its last word, whatever the connection still does. */
	readonly isEnded: boolean;
	readonly message: JsonObject | null;
	readonly finishReason: string | null;
	readonly usage: Usage | null;
	readonly engine: string | null;
	readonly model: string | null;
	/** Of the weights that sampled, where the engine says so. */
	readonly weightVersions?: readonly string[];
	readonly tokens: TokenColumns;
	readonly losses: string[];
	/** What in it does not fit together: its tokens may be anybody's. */
	readonly contradictions?: ReadonlySet<string>;
	/** Pieces of text seen, a lower bound of the tokens when the engine reports none. */
	readonly pieces: number;
}

export interface ProtocolError {
	status: number;
	type: string;
	code: string;
	message: string;
}

/** One HTTP shape an agent may speak. All that is known of it is here: nobody else asks for its name. */
export interface Protocol {
	name: ModelCall["protocol"];
	/** Below the base URL, here and upstream. */
	path: string;
	/** What a box may send. */
	shape: Rule;
	/** Where the conversation stands; a request without it is none. */
	conversationField: string;
	/** Engines hand out ids and logprobs over it. Without them a call can be judged but not trained on. */
	carriesTokens: boolean;
	/** What a rollout may ask of the sampling. */
	sampling: readonly SamplingName[];
	takesSeed: boolean;
	/** The field that limits the length of an answer. */
	lengthField(engine: { wantsMaxCompletionTokens: boolean }): string;
	/** What else an engine has to be told, or must not be. */
	patch?(draft: RequestDraft, input: PatchInput, engineStreams: boolean): void;
	/** How the endpoint's key travels. */
	toCredentials(apiKey: string, hostname: string): Record<string, string>;
	startAnswer(hidden: Hidden): EngineAnswer;
	/** Request body → messages, tools and the rest. */
	split(body: JsonObject): { messages: unknown[]; tools: unknown[]; params: JsonObject };
	/** The instructions that stand outside the conversation, if any. */
	systemOf(body: JsonObject): unknown;
	toErrorBody(error: ProtocolError): JsonObject;
}

export function isObject(value: unknown): value is JsonObject {
	return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function toArray(value: unknown): unknown[] {
	return Array.isArray(value) ? value : [];
}

export function toText(value: unknown): string | null {
	return typeof value === "string" ? value : null;
}

export function toCount(value: unknown): number {
	return Number.isInteger(value) ? Math.max(0, value as number) : 0;
}
