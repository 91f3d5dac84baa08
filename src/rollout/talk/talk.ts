import { setTimeout as delay } from "node:timers/promises";
import type { CloseReason, Conversation } from "../../agent/agent.ts";
import type { Attendant } from "../../conversation/attendant.ts";
import type { ConversationEnd, ConversationTerms } from "../../model/conversation.ts";
import { toTimerMs } from "../../model/duration.ts";
import type { Failure } from "../../model/failure.ts";
import type { Rollout } from "../../model/rollout.ts";
import { attend } from "../attend.ts";
import type { Deps } from "../deps.ts";
import type { Halt, HaltSwitch } from "../halt.ts";
import type { RolloutRecord } from "../record.ts";
import type { Transcript } from "../transcript.ts";
import type { Past } from "./recall.ts";
import type { TurnSlot } from "./turn-slot.ts";
import { Turns } from "./turns.ts";

/** How a conversation ended, here; null when it goes on elsewhere. */
export interface TalkEnd {
	closed: ConversationEnd | null;
	failure: Failure | null;
}

/** Its name among what was said: it is said once, however often the conversation is opened. */
const OPENING = "opening";

/** After an interrupt OpenCode kills its tools and reports idle; this long it may take. */
const INTERRUPT_GRACE_MS = 5_000;
const REST_MS = 50;

/** An agent that is open, wherever it lives. */
export interface LiveAgent {
	conversation: Conversation;
	transcript: Transcript;
	/** Its place among those that work at its endpoint. */
	slot: TurnSlot;
	halt: HaltSwitch;
	/** As its endpoint calls it. */
	setModel(model: string): void;
	/** Called after each turn, while nothing that people say reaches it: what was said and done is kept. */
	keep(): Promise<void>;
}

export interface TalkSignals {
	/** Somebody wants it closed. */
	close: AbortSignal;
	/** It has to go on elsewhere. */
	leave: AbortSignal;
	/** It should, when the agent has nothing to do. */
	move?: AbortSignal | undefined;
}

/** Lets people talk to the agent, turn after turn, until it is closed, too long idle, or too old. */
export async function talk(
	rollout: Rollout,
	past: Past,
	agent: LiveAgent,
	deps: Deps,
	record: RolloutRecord,
	signals: TalkSignals,
): Promise<TalkEnd> {
	const { conversation, transcript, slot, halt, keep } = agent;
	const terms = rollout.request.conversation!;
	using attending = attend(rollout, conversation, transcript, deps, record, {
		heard: past.heard,
		always: past.always,
		setModel: (model) => agent.setModel(model),
		sending: (send) => slot.during(send),
		first: terms.opening && { type: "send", id: OPENING, ...terms.opening },
	});
	using turns = new Turns(conversation, transcript, record);
	if (past.model !== null) agent.setModel(past.model);
	await sayAgain(conversation, slot, past, record);
	record.phase("agent");
	attending.attendant.begun();
	return await takeTurns(conversation, slot, turns, attending.attendant, terms, halt, signals, keep);
}

/** What ends it from outside, however it is told. */
export function haltOn(
	halt: HaltSwitch,
	leave: AbortSignal,
	terms: ConversationTerms,
	past: Past,
): Disposable {
	using stack = new DisposableStack();
	stack.use(halt.on(leave, { type: "aborted" }));
	stack.use(halt.on(AbortSignal.timeout(toTimerMs(restOfLifeMs(terms, past))), { type: "timeout" }));
	return stack.move();
}

/** Lives on from the moment it was opened, whoever hosts it. */
function restOfLifeMs({ lifetimeS }: ConversationTerms, { openedAt }: Past): number {
	const agedMs = openedAt === null ? 0 : Date.now() - openedAt;
	return Math.max(1, lifetimeS * 1000 - agedMs);
}

/** What the worker before this one was told, and its agent took to the grave. */
async function sayAgain(
	conversation: Conversation,
	slot: TurnSlot,
	past: Past,
	record: RolloutRecord,
): Promise<void> {
	for (const { text, by, messageId, id } of past.unheard) {
		const ids = { messageId, partId: `prt_${messageId.slice(4)}` };
		await slot.during(() => conversation.send(text, { ids }));
		record.emit({
			type: "message-sent",
			text,
			by,
			messageId,
			again: true,
			...(id === undefined ? {} : { id }),
		});
	}
}

async function takeTurns(
	conversation: Conversation,
	slot: TurnSlot,
	turns: Turns,
	attendant: Attendant,
	{ idleS }: ConversationTerms,
	halt: HaltSwitch,
	{ close, move }: { close: AbortSignal; move?: AbortSignal | undefined },
	keep: () => Promise<void>,
): Promise<TalkEnd> {
	const seen = { kept: 0, crash: null as CloseReason | null };
	let stirred = Promise.withResolvers<"stirred">();
	using _listening = conversation.subscribe((event) => {
		if (event.type !== "closed") return;
		seen.crash = event.reason;
		stirred.resolve("stirred");
	});
	turns.onTold(() => stirred.resolve("stirred"));
	using _hearing = attendant.onHeard(() => stirred.resolve("stirred"));
	const asked = fired(close).then(() => "close" as const);
	const moving = move === undefined ? new Promise<never>(() => {}) : fired(move).then(() => "move" as const);
	const halted = halt.halted.then(() => "halted" as const);
	for (;;) {
		stirred = Promise.withResolvers();
		const settled = conversation.settled().then(() => "settled" as const);
		const first = await Promise.race([settled, asked, halted]);
		if (seen.crash !== null) return crashed(seen.crash);
		const end = first === "settled" ? null : first === "close" ? ASKED : toEnd(halt.reason);
		if (end !== null && (end.closed === null || end.failure !== null)) return end;
		if (end !== null) await interrupt(conversation);
		await turns.quiet();
		if (!conversation.pending) slot.settled();
		if (turns.told > seen.kept) {
			seen.kept = turns.told;
			await attendant.undisturbed(keep);
		}
		if (end !== null) return end;
		if (conversation.pending) {
			// Its turns are over and it still says that it is busy: somebody just spoke, or its last word is on its way.
			await delay(REST_MS);
			continue;
		}
		const idle = new AbortController();
		const late = delay(toTimerMs(idleS * 1000), "idle" as const, { signal: idle.signal }).catch(() => null);
		const next = await Promise.race([stirred.promise, asked, halted, moving, late]);
		idle.abort();
		if (next === "move") return ELSEWHERE;
		if (next === "idle") return { closed: "idle", failure: null };
	}
}

async function interrupt(conversation: Conversation): Promise<void> {
	await Promise.race([conversation.interrupt(), delay(INTERRUPT_GRACE_MS, undefined, { ref: false })]);
}

function crashed({ code, message }: CloseReason): TalkEnd {
	if (code === "asked") return ASKED;
	return { closed: "failed", failure: { boundary: "agent", code, message, retryable: true } };
}

const ASKED: TalkEnd = { closed: "asked", failure: null };
const ELSEWHERE: TalkEnd = { closed: null, failure: null };

export function toEnd(halt: Halt | null): TalkEnd {
	if (halt?.type === "failure") return { closed: "failed", failure: halt.failure };
	if (halt?.type === "timeout") return { closed: "lifetime", failure: null };
	if (halt?.type === "budget") return { closed: "budget", failure: null };
	return ELSEWHERE;
}

function fired(signal: AbortSignal): Promise<void> {
	return new Promise((resolve) => {
		if (signal.aborted) resolve();
		signal.addEventListener("abort", () => resolve(), { once: true });
	});
}
