import type { Conversation } from "../agent/agent.ts";
import { type WorkEnd, workOff } from "../conversation/work.ts";
import type { Tap } from "../gateway/gateway.ts";
import { toTimerMs } from "../model/duration.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { Failure, Outcome } from "../model/failure.ts";
import type { Rollout } from "../model/rollout.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { attend } from "./attend.ts";
import type { ReadyBox } from "./boxes/ready-box.ts";
import type { Deps } from "./deps.ts";
import { castEndpoint } from "./endpoint.ts";
import { keepEvidence } from "./evidence.ts";
import { type Halt, HaltSwitch } from "./halt.ts";
import { BOX_LOST, CREDENTIAL_LOST, openTap } from "./open-tap.ts";
import type { RolloutRecord } from "./record.ts";
import { inWorkdir, openConversation } from "./talk/open-conversation.ts";
import { Transcript } from "./transcript.ts";

/**
 * Lets the agent work on the task until it ends by itself or has to stop, then keeps the evidence. `onLastWord` is called when
 * it seems about to end, and in any case when it has. What the agent did is data; it does not throw for that.
 */
export async function solve(
	rollout: Rollout,
	ready: ReadyBox,
	deps: Deps,
	record: RolloutRecord,
	signal: AbortSignal,
	onLastWord: () => void,
): Promise<void> {
	const { request } = rollout;
	const { planted } = ready;
	const halt = new HaltSwitch();
	let hasActed = false;
	const onWait = () => record.note(WAITS);
	// An agent with a login of its own has no business at the gateway.
	await using cast = planted ? null : await castEndpoint(rollout, deps, { signal, onWait });
	using _slot = cast && (await deps.endpointSlots.enter(cast.endpoint.baseUrl, signal));
	const openOwn = (endpoint: Endpoint) =>
		openTap(rollout, ready, endpoint, deps, record, halt, (call) => {
			hasActed ||= call.purpose !== "title" && call.finishReason !== null;
			if (hasActed) ready.box.suspect();
			// A model that asks for no tool has nearly always finished: its agent ends some 50 ms later.
			if (call.purpose === "main" && call.finishReason === "stop") onLastWord();
		});
	await using tap = cast && openOwn(cast.endpoint);
	// Whatever halts it, the engine stops generating at once; the agent's own end and the evidence may take their time.
	void halt.halted.then(() => tap?.revoke());
	// Not before: the time in which it waits for a credential, an engine's answer or its turn at the engine is not the agent's.
	record.phase("agent");
	using _abort = halt.on(signal, { type: "aborted" });
	const lost = planted?.lost ?? cast?.lost;
	using _lost = lost && halt.on(lost, { type: "failure", failure: CREDENTIAL_LOST });
	using _clock = halt.on(AbortSignal.timeout(toTimerMs(request.task.clocks.agentS * 1000)), {
		type: "timeout",
	});
	void ready.box.closed.then(() => halt.halt({ type: "failure", failure: BOX_LOST }));

	const transcript = new Transcript(rollout, deps.store);
	await using conversation = await openConversation(inWorkdir(ready), halt);
	using _hearing = conversation?.subscribe((event) => {
		// Of calls that no gateway sees, the agent's answers tell.
		if (planted && event.type === "message") hasActed ||= event.message.error === null;
		if (hasActed) ready.box.suspect();
	});
	const end =
		conversation === null
			? NEVER_BEGAN
			: await attendedWork(rollout, conversation, transcript, deps, record, halt);
	record.agentExitCode = end.exitCode;
	const settled = settle(end, halt.reason ?? tap?.stop ?? null, tap);
	const { outcome, failure } = await blameRightly(settled, hasActed, ready, record);
	record.ended(outcome, failure);
	record.emit({ type: "agent-end", outcome, exitCode: end.exitCode });
	onLastWord();
	await keepEvidence(rollout, ready, conversation, transcript, record);
}

export const WAITS = "every credential that it may use is in use: it waits for one";

const NEVER_BEGAN: WorkEnd = { outcome: "aborted", exitCode: null, error: null };

async function attendedWork(
	rollout: Rollout,
	conversation: Conversation,
	transcript: Transcript,
	deps: Deps,
	record: RolloutRecord,
	halt: HaltSwitch,
): Promise<WorkEnd> {
	using attending = attend(rollout, conversation, transcript, deps, record);
	return await workOff(conversation, attending.attendant, rollout.request.task.instruction, halt.signal);
}

interface Settled {
	outcome: Outcome;
	failure: Failure | null;
}

/** What stopped it from outside explains the end best; then the true upstream error; then what the agent said. */
function settle(end: WorkEnd, halt: Halt | null, tap: Tap | null): Settled {
	if (halt?.type === "failure") return { outcome: "failed", failure: halt.failure };
	if (halt) return { outcome: halt.type, failure: null };
	// An agent that aborts itself has ended by itself: it gets the verdict it would like to avoid.
	if (end.outcome !== "failed") return { outcome: "completed", failure: null };
	if (tap?.lastUpstreamError) return { outcome: "failed", failure: tap.lastUpstreamError };
	const crashed = end.error?.code === "agent_crashed" || end.error?.code === "agent_auth_failed";
	const code = crashed ? end.error!.code : "agent_error";
	const message = end.error
		? `${end.error.code}: ${end.error.message}`
		: "the agent ended with an error it did not explain";
	return { outcome: "failed", failure: { boundary: "agent", code, message, retryable: crashed } };
}

/** Of the provider's failures, those that a request of the agent's own can bring about. */
const PROVOKED = new Set(["provider_rejected", "context_overflow", "prompt_too_large"]);

/**
 * An agent that has had its first answer may have run anything: it can kill its own program, ask the model for nonsense, fill its disk,
 * use up the memory of its box. That is an end like any other, and gets its verdict. What came before, or could not come from inside
 * its box, is a failure.
 */
async function blameRightly(
	{ outcome, failure }: Settled,
	hasActed: boolean,
	{ box }: ReadyBox,
	record: RolloutRecord,
): Promise<Settled> {
	if (failure === null || !hasActed) return { outcome, failure };
	const isItsOwn =
		failure.boundary === "agent" || PROVOKED.has(failure.code) || (await hasBroken(box, failure));
	if (!isItsOwn) return { outcome, failure };
	record.note(`the agent's work ended with ${failure.code}: ${failure.message}`);
	return { outcome: "completed", failure: null };
}

async function hasBroken(box: Sandbox, failure: Failure): Promise<boolean> {
	return failure === BOX_LOST && (await box.hasBrokenItself());
}
