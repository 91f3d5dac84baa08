import type { Conversation } from "../../agent/agent.ts";
import { messageOf, within } from "../../errors.ts";
import type { Rollout } from "../../model/rollout.ts";
import type { ReadyBox } from "../boxes/ready-box.ts";
import type { Deps } from "../deps.ts";
import { castEndpoint } from "../endpoint.ts";
import { keepEvidence } from "../evidence.ts";
import { HaltSwitch } from "../halt.ts";
import { BOX_LOST, CREDENTIAL_LOST, openTap } from "../open-tap.ts";
import type { RolloutRecord } from "../record.ts";
import { WAITS } from "../solve.ts";
import { Transcript } from "../transcript.ts";
import { Deliverables } from "./deliverables.ts";
import { inWorkdir, openConversation } from "./open-conversation.ts";
import type { Past } from "./recall.ts";
import { giveState, packState, takeState } from "./state.ts";
import { haltOn, type TalkEnd, type TalkSignals, talk, toEnd } from "./talk.ts";
import { TurnSlot } from "./turn-slot.ts";

/**
 * A conversation with an agent in a box of its own. After each turn what was said and done is saved, so that another worker can go
 * on from there.
 */
export async function talkInBox(
	rollout: Rollout,
	past: Past,
	ready: ReadyBox,
	deps: Deps,
	record: RolloutRecord,
	signals: TalkSignals,
): Promise<TalkEnd> {
	const terms = rollout.request.conversation!;
	const halt = new HaltSwitch();
	const signal = AbortSignal.any([signals.close, signals.leave]);
	const onWait = () => record.note(WAITS);
	await using cast = await castEndpoint(rollout, deps, { signal, onWait });
	using slot = new TurnSlot(() => deps.turnSlots.enter(cast.endpoint.baseUrl, signal));
	await using tap = openTap(rollout, ready, cast.endpoint, deps, record, halt);
	void halt.halted.then(() => tap.revoke());
	using _halting = haltOn(halt, signals.leave, terms, past);
	using _lost = cast.lost && halt.on(cast.lost, { type: "failure", failure: CREDENTIAL_LOST });
	void ready.box.closed.then(() => halt.halt({ type: "failure", failure: BOX_LOST }));

	if (past.state !== null) await restore(ready, past, record, terms.folder !== undefined);
	const sessionId = past.state?.session.info.id;
	const options = typeof sessionId === "string" ? { sessionId } : {};
	await using conversation = await openConversation(inWorkdir(ready, options), halt);
	if (conversation === null) return toEnd(halt.reason);
	const deliverables = new Deliverables(rollout, ready.box, deps.store, record, past.delivered);
	using _delivering = conversation.subscribe((event) => {
		if (event.type === "agent-event" && hasRun(event.properties)) deliverables.stirred();
	});
	const transcript = new Transcript(rollout, deps.store);
	const agent = {
		...{ conversation, transcript, slot, halt },
		// An agent in a box knows one model; the gateway knows which one that is.
		setModel: (model: string) => tap.setModel(model),
		async keep() {
			await deliverables.look();
			await keepState(rollout, ready, conversation, deps, record);
		},
	};
	const end = await talk(rollout, past, agent, deps, record, signals);
	await keepEvidence(rollout, ready, conversation, transcript, record);
	return end;
}

/** A tool that has ended may have left something. */
function hasRun(properties: Record<string, unknown>): boolean {
	const part = properties.part as { type?: string; state?: { status?: string } } | undefined;
	return part?.type === "tool" && part.state?.status === "completed";
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
