import { setTimeout as delay } from "node:timers/promises";
import type { CloseReason, Conversation } from "../../agent/agent.ts";
import type { Attendant } from "../../conversation/attendant.ts";
import { messageOf, within } from "../../errors.ts";
import type { ConversationEnd, ConversationTerms } from "../../model/conversation.ts";
import { toTimerMs } from "../../model/duration.ts";
import type { Failure } from "../../model/failure.ts";
import type { Rollout } from "../../model/rollout.ts";
import { attend } from "../attend.ts";
import type { ReadyBox } from "../boxes/ready-box.ts";
import type { Deps } from "../deps.ts";
import { castEndpoint } from "../endpoint.ts";
import { keepEvidence } from "../evidence.ts";
import { type Halt, HaltSwitch } from "../halt.ts";
import { BOX_LOST, CREDENTIAL_LOST, openTap } from "../open-tap.ts";
import type { RolloutRecord } from "../record.ts";
import { WAITS } from "../solve.ts";
import { Transcript } from "../transcript.ts";
import { Deliverables } from "./deliverables.ts";
import { openConversation } from "./open-conversation.ts";
import type { Past } from "./recall.ts";
import { giveState, packState, takeState } from "./state.ts";
import { TurnSlot } from "./turn-slot.ts";
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

/**
 * Keeps the agent open and lets people talk to it, turn after turn, until it is closed, too long idle, or too old. After each
 * turn what was said and done is saved, so that another worker can go on from there.
 */
export async function talk(
	rollout: Rollout,
	past: Past,
	ready: ReadyBox,
	deps: Deps,
	record: RolloutRecord,
	signals: { close: AbortSignal; leave: AbortSignal; move?: AbortSignal | undefined },
): Promise<TalkEnd> {
	const terms = rollout.request.conversation!;
	const halt = new HaltSwitch();
	const signal = AbortSignal.any([signals.close, signals.leave]);
	const onWait = () => record.note(WAITS);
	await using cast = await castEndpoint(rollout, deps, { signal, onWait });
	using slot = new TurnSlot(() => deps.turnSlots.enter(cast.endpoint.baseUrl, signal));
	await using tap = openTap(rollout, ready, cast.endpoint, deps, record, halt);
	void halt.halted.then(() => tap.revoke());
	using _leave = halt.on(signals.leave, { type: "aborted" });
	using _lost = cast.lost && halt.on(cast.lost, { type: "failure", failure: CREDENTIAL_LOST });
	using _clock = halt.on(AbortSignal.timeout(toTimerMs(restOfLifeMs(terms, past))), { type: "timeout" });
	void ready.box.closed.then(() => halt.halt({ type: "failure", failure: BOX_LOST }));

	if (past.state !== null) await restore(ready, past, record, terms.folder !== undefined);
	const sessionId = past.state?.session.info.id;
	await using conversation = await openConversation(
		ready,
		halt,
		typeof sessionId === "string" ? { sessionId } : {},
	);
	if (conversation === null) return toEnd(halt.reason);
	const transcript = new Transcript(rollout, deps.store);
	using attending = attend(rollout, conversation, transcript, deps, record, {
		heard: past.heard,
		always: past.always,
		// An agent in a box knows one model; the gateway knows which one that is.
		setModel: (model) => tap.setModel(model),
		sending: (send) => slot.during(send),
		first: terms.opening && { type: "send", id: OPENING, ...terms.opening },
	});
	using turns = new Turns(conversation, transcript, record);
	if (past.model !== null) tap.setModel(past.model);
	await sayAgain(conversation, slot, past, record);
	record.phase("agent");
	attending.attendant.begun();
	const deliverables = new Deliverables(rollout, ready.box, deps.store, record, past.delivered);
	using _delivering = conversation.subscribe((event) => {
		if (event.type === "agent-event" && hasRun(event.properties)) deliverables.stirred();
	});
	const keep = async () => {
		await deliverables.look();
		await keepState(rollout, ready, conversation, deps, record);
	};
	const end = await takeTurns(conversation, slot, turns, attending.attendant, terms, halt, signals, keep);
	await keepEvidence(rollout, ready, conversation, transcript, record);
	return end;
}

/** A tool that has ended may have left something. */
function hasRun(properties: Record<string, unknown>): boolean {
	const part = properties.part as { type?: string; state?: { status?: string } } | undefined;
	return part?.type === "tool" && part.state?.status === "completed";
}

/** Lives on from the moment it was opened, whoever hosts it. */
function restOfLifeMs({ lifetimeS }: ConversationTerms, { openedAt }: Past): number {
	const agedMs = openedAt === null ? 0 : Date.now() - openedAt;
	return Math.max(1, lifetimeS * 1000 - agedMs);
}

async function restore(
	ready: ReadyBox,
	{ state }: Past,
	record: RolloutRecord,
	hasFolder: boolean,
): Promise<void> {
	if (state === null) return;
	await within("sandbox", "restore_failed", () => giveState(ready, state), { retryable: true });
	if (state.workdir === null && !hasFolder)
		record.note("the files were too large to be kept: only what was said is back");
	record.emit({ type: "state-restored", messages: state.session.messages.length });
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

/** Nobody who talks to it waits for more than this; and what cannot be kept is said. */
async function keepState(
	rollout: Rollout,
	ready: ReadyBox,
	conversation: Conversation,
	deps: Deps,
	record: RolloutRecord,
): Promise<void> {
	const hasFolder = rollout.request.conversation?.folder !== undefined;
	// Somebody was quicker: it is kept after that turn.
	if (conversation.pending || conversation.sessionId === null) return;
	try {
		const state = await packState(await takeState(ready, conversation.sessionId, { hasFolder }));
		await deps.store.putBlob(rollout.id, rollout.attempt, "state", state);
		record.emit({ type: "state-saved", sizeBytes: state.length });
	} catch (error) {
		record.note(`what was said and done could not be kept: ${messageOf(error)}`);
	}
}

function crashed({ code, message }: CloseReason): TalkEnd {
	if (code === "asked") return ASKED;
	return { closed: "failed", failure: { boundary: "agent", code, message, retryable: true } };
}

const ASKED: TalkEnd = { closed: "asked", failure: null };
const ELSEWHERE: TalkEnd = { closed: null, failure: null };

function toEnd(halt: Halt | null): TalkEnd {
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
