import type { AgentOptions } from "../model/request.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";

/** OpenCode's own message shape. */
export interface AgentMessage {
	info: Record<string, unknown>;
	parts: Record<string, unknown>[];
}

/** What the agent itself said went wrong. The tap knows better when a provider is to blame. */
export interface AgentTrouble {
	code: string;
	message: string;
	/** What the model's endpoint answered, where that is the trouble. */
	statusCode: number | null;
}

/** A piece of text as it is being written: what stands from `offset` on is now `text`. */
export interface TextPiece {
	sessionId: string;
	isChild: boolean;
	messageId: string;
	partId: string;
	kind: "text" | "reasoning";
	offset: number;
	text: string;
}

/** One finished answer of the model in the root session; a turn may hold many. */
export interface AssistantMessage {
	id: string;
	/** The message it answers. */
	parentId: string;
	text: string;
	finish: string | null;
	error: AgentTrouble | null;
	tokens: Record<string, unknown> | null;
}

/** One prompt until the agent has settled. */
export interface Turn {
	/** The message it began with. */
	messageId: string;
	ended: "answered" | "failed" | "interrupted" | "unanswered";
	/** The last message's text; empty when it only used tools. */
	text: string;
	error: AgentTrouble | null;
	tokens: Record<string, unknown> | null;
}

export interface PermissionAsk {
	kind: "permission";
	id: string;
	sessionId: string;
	/** Asked by a sub-agent. */
	isChild: boolean;
	tool: string;
	input: Record<string, unknown>;
	patterns: string[];
	/** What OpenCode would allow from now on if it were told "always". */
	always: string[];
}

export interface QuestionAsk {
	kind: "question";
	id: string;
	sessionId: string;
	isChild: boolean;
	questions: unknown[];
}

export type Ask = PermissionAsk | QuestionAsk;

/** `by` says who made it: it goes on the record. */
export type PermissionDecision =
	| { behavior: "allow"; by: string }
	/** With a message the model reads it and goes on; `endTurn` gives none, and the turn ends. */
	| { behavior: "deny"; by: string; message?: string; endTurn?: boolean };

/** One list of labels for each question, in order; null dismisses, and the turn ends. */
export interface QuestionDecision {
	answers: string[][] | null;
	by: string;
}

/** `signal` fires when the answer is no longer wanted: answered elsewhere, interrupted, too late. */
export type PermissionHandler = (ask: PermissionAsk, signal: AbortSignal) => Promise<PermissionDecision>;
export type QuestionHandler = (ask: QuestionAsk, signal: AbortSignal) => Promise<QuestionDecision>;

/** How an ask came to its end. */
export interface AskEnd {
	ask: Ask;
	reply: "once" | "reject" | "answer" | "unknown";
	/** Who decided: a policy, a rule, a person; or `deadline`, `interrupt`, `ghost`, `elsewhere`, `close`. */
	by: string;
	message?: string;
}

/** Everything a conversation tells, in one order. `closed` is the last, and comes once. */
export type ConversationEvent =
	| { type: "session-start"; sessionId: string }
	/** As the agent said it, for the root session and its sub-agents. */
	| { type: "agent-event"; name: string; properties: Record<string, unknown> }
	| { type: "text"; piece: TextPiece }
	| { type: "message"; message: AssistantMessage }
	| { type: "turn-end"; turn: Turn }
	| { type: "ask"; ask: Ask }
	| { type: "ask-end"; end: AskEnd }
	/** The agent is not heard any more; told once, until it is heard again. */
	| { type: "lost"; why: string }
	/** Nothing was heard in between; what was missed has been asked for, or will be. */
	| { type: "gap"; fromMs: number; toMs: number }
	/** A listener was too slow: so many events it will never see. */
	| { type: "overflow"; dropped: number }
	/** The agent's server said something that is not an event. */
	| { type: "noise"; what: "unparseable" | "oversize"; head: string }
	| { type: "note"; text: string }
	| { type: "closed"; reason: CloseReason };

export interface CloseReason {
	/** `asked` when somebody here wanted it; else what broke. */
	code: "asked" | "agent_crashed" | "agent_auth_failed";
	message: string;
	exitCode: number | null;
}

export type ConversationStatus =
	| { type: "idle" }
	| { type: "busy" }
	| { type: "retry"; attempt: number; message: string; nextMs: number };

export interface SendOptions {
	/** provider/model */
	model?: string;
	agent?: string;
	variant?: string;
	/** The caller's name for it: goes along as the header `x-trace-id`, for the logs of whatever lies in between. */
	traceId?: string;
	/** From an earlier try of the same message: it will not be said twice. */
	ids?: MessageIds;
}

export interface MessageIds {
	messageId: string;
	partId: string;
}

/** A live agent one can talk to, permit, interrupt. Ended by `finish`, or by the end of the agent. */
export interface Conversation extends AsyncDisposable {
	/** Null only while the agent has not named it yet. */
	readonly sessionId: string | null;
	readonly status: ConversationStatus;
	/** Whether a prompt is being worked on; steering makes several. */
	readonly pending: boolean;
	readonly closed: Promise<CloseReason>;
	/** Whatever the handler throws is logged and harms nobody. A handler that returns a promise is waited for. */
	subscribe(handler: (event: ConversationEvent) => unknown): Disposable;
	/** One each: the last registration wins, and what waits goes to it at once. Without one, asks wait. */
	decideWith(handler: PermissionHandler): Disposable;
	answerWith(handler: QuestionHandler): Disposable;
	/** Said once, however often the network fails. Also while the agent works: then it steers. */
	send(text: string, options?: SendOptions): Promise<string>;
	/** Stops the turn, its tools and its asks; nothing is allowed afterwards that was asked before. */
	interrupt(): Promise<void>;
	/** provider/model, for what is sent from now on. */
	setModel(model: string): void;
	/** Resolves when no prompt is being worked on, or when it has closed. */
	settled(): Promise<void>;
	/** What waits for an answer now. */
	asks(): Ask[];
	messages(): Promise<AgentMessage[]>;
	finish(reason?: string): Promise<void>;
}

/** A session as OpenCode writes it out and reads it in. */
export interface SavedSession {
	info: Record<string, unknown>;
	messages: AgentMessage[];
}

/** A booted program that waits for its first prompt. */
export interface BootedAgent extends AsyncDisposable {
	/** Pays first-use costs ahead of time, all the more in `directory`. The gateway must be priming this box. */
	prime(directory: string): Promise<void>;
	/** Does all of `open` that can be done before, for a conversation in this directory. */
	openAhead(directory: string): Promise<void>;
	/** Rejects unless the agent could begin now. */
	ping(): Promise<void>;
	/** A new conversation, or one that goes on with a session the agent remembers. */
	open(directory: string, options?: { sessionId?: string }): Promise<Conversation>;
	/** The session as an agent elsewhere could take it in; without those of its sub-agents. */
	exportSession(directory: string, sessionId: string): Promise<SavedSession>;
	/** Takes in what an agent elsewhere exported: it can be opened, and goes on under its own id. */
	importSession(directory: string, session: SavedSession): Promise<void>;
	logTail(): Promise<string>;
}

export interface Agent {
	readonly name: string;
	readonly version: string;
	/**
	 * Starts the program in the box, pointed at the box's gateway with `key`; or, given a model `provider/model` of its own, with the
	 * login, settings and plugins that lie in its home.
	 */
	boot(
		box: Sandbox,
		options: AgentOptions,
		key: string,
		signal: AbortSignal,
		ownModel?: string | undefined,
	): Promise<BootedAgent>;
}
