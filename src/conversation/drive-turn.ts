import { randomUUID } from "node:crypto";
import type {
	AgentTrouble,
	Conversation,
	ConversationEvent,
	PermissionHandler,
	Turn,
} from "../agent/agent.ts";
import { messageOf, RolloutError, UsageError } from "../errors.ts";
import { toTimerMs } from "../model/duration.ts";
import { Replies } from "./replies.ts";

/** What a turn says: pieces of text, rarely that what was said so far does not count, and one end. */
export type TurnReply =
	| { kind: "delta"; traceId: string; content: string }
	/** The model was cut off and begins again. */
	| { kind: "reset"; traceId: string }
	| { kind: "final"; traceId: string; content: string; usage?: Record<string, unknown> }
	| { kind: "error"; traceId: string; code: TurnErrorCode; retryable: boolean; message: string };

export type TurnErrorCode =
	| "timeout"
	| "aborted"
	| "auth"
	| "rate_limit"
	| "provider"
	| "context_overflow"
	| "transport"
	| "session_not_found"
	| "busy"
	| "invalid"
	| "internal";

/** A conversation, or how to come by one. One that was opened for the turn is closed with it. */
export type TurnTarget = Conversation | { open(): Promise<Conversation> };

export interface DriveTurnOptions {
	traceId?: string;
	/** provider/model */
	model?: string;
	agent?: string;
	timeoutMs?: number;
	/** A headless turn never hangs: what it asks is refused, allowed, or forwarded to somebody. */
	permission?: "deny" | "allow" | PermissionHandler;
	/** While another turn is being worked on. */
	whenBusy?: "error" | "queue";
	/** How long the agent may be out of reach before the turn is given up. */
	lostMs?: number;
	signal?: AbortSignal;
	/** Details for people who run this; replies carry none. */
	log?: (text: string, traceId: string) => void;
}

const TIMEOUT_MS = 300_000;
const INTERRUPT_MS = 2_000;
const LOST_MS = 15_000;

/**
 * Who works in a session now; the next one waits, or is told that it is busy. By the session, whose id is one of a kind on whichever
 * server: two conversations may be open on it.
 */
const turns = new Map<string | Conversation, Promise<void>>();

/**
 * Text in, replies out: `delta`s, then exactly one `final` or `error`, each with the trace id. Never throws. When time is up, the
 * signal fires, or the caller stops listening, the agent is interrupted: no more tokens are burnt.
 */
export async function* driveTurn(
	target: TurnTarget,
	text: string,
	options: DriveTurnOptions = {},
): AsyncGenerator<TurnReply, void, undefined> {
	const traceId = options.traceId || randomUUID();
	const replies = new Replies(traceId);
	const stop = new AbortController();
	const working = work(target, text, options, replies, stop).catch((error) => {
		options.log?.(messageOf(error), traceId);
		replies.fail(...toFailure(error));
	});
	try {
		for await (const reply of replies) yield reply;
	} finally {
		// Whoever stopped listening wants nothing more done.
		stop.abort();
		await working;
	}
}

async function work(
	target: TurnTarget,
	text: string,
	options: DriveTurnOptions,
	replies: Replies,
	stop: AbortController,
): Promise<void> {
	const timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
	if (!(timeoutMs > 0) || text === "" || target == null)
		return replies.fail("invalid", false, "a turn needs a target, a text and a positive timeout");
	const clock = AbortSignal.timeout(toTimerMs(timeoutMs));
	const signal = AbortSignal.any([clock, stop.signal, ...(options.signal ? [options.signal] : [])]);
	const isOpened = "open" in target;
	const opening = isOpened ? target.open() : Promise.resolve(target);
	const conversation = await Promise.race([opening, fired(signal)]);
	if (conversation === "fired") {
		// One that opens all the same is let go; why one did not no longer matters.
		if (isOpened) opening.then((late) => late.finish()).catch(() => {});
		return replies.stopped(clock.aborted);
	}
	try {
		await inTurn(conversation, text, options, replies, { signal, clock });
	} finally {
		if (isOpened) await conversation.finish("its turn is over");
	}
}

async function inTurn(
	conversation: Conversation,
	text: string,
	options: DriveTurnOptions,
	replies: Replies,
	{ signal, clock }: { signal: AbortSignal; clock: AbortSignal },
): Promise<void> {
	const place = conversation.sessionId ?? conversation;
	const before = turns.get(place);
	if ((before !== undefined || conversation.pending) && options.whenBusy !== "queue")
		return replies.fail("busy", true, "another turn is being worked on");
	const mine = Promise.withResolvers<void>();
	const queue = Promise.all([before, mine.promise]).then(() => {});
	turns.set(place, queue);
	try {
		const free = (before ?? Promise.resolve()).then(() => conversation.settled());
		if ((await Promise.race([free, fired(signal)])) === "fired") return replies.stopped(clock.aborted);
		await converse(conversation, text, options, replies, { signal, clock });
	} finally {
		mine.resolve();
		if (turns.get(place) === queue) turns.delete(place);
	}
}

async function converse(
	conversation: Conversation,
	text: string,
	options: DriveTurnOptions,
	replies: Replies,
	{ signal, clock }: { signal: AbortSignal; clock: AbortSignal },
): Promise<void> {
	const over = Promise.withResolvers<Turn | null>();
	const asked = Promise.withResolvers<string>();
	let lost: NodeJS.Timeout | undefined;
	// What comes before our message has its id waits for it: it may be about somebody else's.
	using _listening = conversation.subscribe(async (event) => {
		await asked.promise.then(
			(messageId) => hear(event, messageId, replies, over.resolve),
			() => {},
		);
		if (event.type === "lost") lost = setTimeout(() => over.resolve(null), options.lostMs ?? LOST_MS);
		if (event.type === "gap") clearTimeout(lost);
	});
	using _deciding = conversation.decideWith(toHandler(options.permission ?? "deny"));
	using _answering = conversation.answerWith(async () => ({ answers: null, by: "policy" }));
	const { model, agent } = options;
	const { traceId } = replies;
	conversation
		.send(text, { traceId, ...(model ? { model } : {}), ...(agent ? { agent } : {}) })
		.then(asked.resolve, asked.reject);
	asked.promise.catch(() => {});
	const first = await Promise.race([asked.promise.then(() => over.promise), fired(signal)]).finally(() =>
		clearTimeout(lost),
	);
	if (first === "fired") {
		replies.stopped(clock.aborted);
		return await stop(conversation, options, traceId);
	}
	if (first === null) {
		replies.fail("transport", true, "the agent's server is gone");
		return await stop(conversation, options, traceId);
	}
	if (first.error === null && first.ended === "answered") return replies.finish(first.text, first.tokens);
	if (first.ended === "interrupted") return replies.fail("aborted", false, "the turn was interrupted");
	if (first.error === null) return replies.fail("provider", true, "the agent did not answer");
	options.log?.(`${first.error.code}: ${first.error.message}`, traceId);
	replies.fail(...toError(first.error));
}

/** The agent stops even when that takes longer than whoever asked for it waits. */
async function stop(conversation: Conversation, options: DriveTurnOptions, traceId: string): Promise<void> {
	const interrupting = conversation.interrupt().catch((error) => options.log?.(messageOf(error), traceId));
	await Promise.race([interrupting, fired(AbortSignal.timeout(INTERRUPT_MS))]);
}

function hear(
	event: ConversationEvent,
	asked: string,
	replies: Replies,
	over: (turn: Turn | null) => void,
): void {
	if (event.type === "text" && !event.piece.isChild && event.piece.kind === "text") replies.say(event.piece);
	if (event.type === "agent-event") replies.note(event.name, event.properties, asked);
	if (event.type === "turn-end" && event.turn.messageId === asked) over(event.turn);
	if (event.type === "closed") over(null);
}

function toHandler(permission: "deny" | "allow" | PermissionHandler): PermissionHandler {
	if (typeof permission === "function") return permission;
	if (permission === "allow") return async () => ({ behavior: "allow", by: "policy" });
	const message = "This is not permitted here. Go on without it.";
	return async () => ({ behavior: "deny", by: "policy", message });
}

/** What the agent reports, as a caller's program wants it: a stable code, whether another try may help, and nothing secret. */
export function toError({ code, statusCode }: AgentTrouble): [TurnErrorCode, boolean, string] {
	if (code === "MessageAbortedError") return ["aborted", false, "the turn was aborted"];
	if (code === "ContextOverflowError" || statusCode === 413)
		return ["context_overflow", false, "the conversation no longer fits the model's context"];
	if (code === "ProviderAuthError" || statusCode === 401 || statusCode === 403)
		return ["auth", false, "the model's endpoint refused the key"];
	if (statusCode === 429) return ["rate_limit", true, "the model's endpoint is asked too often"];
	const isPassing = statusCode === null ? code === "UnknownError" : statusCode >= 500;
	return ["provider", isPassing, "the model's endpoint failed"];
}

function toFailure(error: unknown): [TurnErrorCode, boolean, string] {
	if (error instanceof UsageError) return ["invalid", false, "the turn cannot be driven as asked"];
	if (!(error instanceof RolloutError)) return ["internal", false, "the turn could not be driven"];
	if (error.code === "session_not_found")
		return ["session_not_found", false, "the agent does not know the session"];
	if (error.code === "agent_auth_failed") return ["auth", false, "the agent's server refused our password"];
	if (error.code === "send_rejected") return ["invalid", false, "the agent refused the message"];
	if (error.code === "conversation_closed") return ["transport", false, "the conversation is closed"];
	return ["transport", error.retryable, "the agent's server does not answer"];
}

function fired(signal: AbortSignal): Promise<"fired"> {
	return new Promise((resolve) => {
		if (signal.aborted) resolve("fired");
		signal.addEventListener("abort", () => resolve("fired"), { once: true });
	});
}
