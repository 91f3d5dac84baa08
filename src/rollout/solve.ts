import type { Conversation } from "../agent/agent.ts";
import { Attendant, type AttendantPolicy } from "../conversation/attendant.ts";
import { isTelling } from "../conversation/telling.ts";
import { type WorkEnd, workOff } from "../conversation/work.ts";
import { messageOf, RolloutError, within } from "../errors.ts";
import type { Tap } from "../gateway/gateway.ts";
import { toTimerMs } from "../model/duration.ts";
import type { EventBody } from "../model/event.ts";
import type { Failure, Outcome } from "../model/failure.ts";
import type { AgentOptions } from "../model/request.ts";
import type { Rollout } from "../model/rollout.ts";
import { shorten } from "../model/shorten.ts";
import { AGENT_LOG_DIR, WORKDIR } from "../model/task.ts";
import { pathIn } from "../sandbox/sandbox.ts";
import { TraceWriter } from "../store/trace/trace-log.ts";
import { inTime, unresponsiveBox } from "./clock.ts";
import { coalesce } from "./coalesce.ts";
import type { Deps } from "./deps.ts";
import { castEndpoint } from "./endpoint.ts";
import { EventAllowance } from "./event-allowance.ts";
import { type Halt, HaltSwitch } from "./halt.ts";
import type { ReadyBox } from "./ready-box.ts";
import type { RolloutRecord } from "./record.ts";
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
	record.phase("agent");
	const { request } = rollout;
	const halt = new HaltSwitch();
	let hasActed = false;
	await using cast = await castEndpoint(rollout, deps);
	using _slot = await deps.endpointSlots.enter(cast.endpoint.baseUrl, signal);
	await using tap = deps.gateway.openTap({
		rolloutId: rollout.id,
		attempt: rollout.attempt,
		boxId: ready.box.id,
		key: ready.key,
		endpoint: cast.endpoint,
		sampling: request.sampling,
		budget: request.task.budget,
		...(request.mode === "black_box" ? {} : { sink: traceSink(rollout, deps, halt) }),
		onCallStart: (call) => record.emit({ type: "call-start", ...call }),
		onCallEnd: (call) => {
			record.called(call);
			hasActed ||= call.purpose !== "title" && call.finishReason !== null;
			// A model that asks for no tool has nearly always finished: its agent ends some 50 ms later.
			if (call.purpose === "main" && call.finishReason === "stop") onLastWord();
		},
		onStop: (stop) => halt.halt(stop),
	});
	// Whatever halts it, the engine stops generating at once; the agent's own end and the evidence may take their time.
	void halt.halted.then(() => tap.revoke());
	using _abort = halt.on(signal, { type: "aborted" });
	using _lost = cast.lost && halt.on(cast.lost, { type: "failure", failure: CREDENTIAL_LOST });
	using _clock = halt.on(AbortSignal.timeout(toTimerMs(request.task.clocks.agentS * 1000)), {
		type: "timeout",
	});
	void ready.box.closed.then(() => halt.halt({ type: "failure", failure: BOX_LOST }));

	const transcript = new Transcript(rollout, deps.store);
	await using conversation = await open(ready, halt);
	const end =
		conversation === null
			? NEVER_BEGAN
			: await attendedWork(rollout, conversation, transcript, deps, record, halt);
	record.agentExitCode = end.exitCode;
	const settled = settle(end, halt.reason ?? tap.stop, tap);
	const { outcome, failure } = blameRightly(settled, hasActed, record);
	record.ended(outcome, failure);
	record.emit({ type: "agent-end", outcome, exitCode: end.exitCode });
	onLastWord();
	await keepEvidence(rollout, ready, conversation, transcript, record);
}

const NEVER_BEGAN: WorkEnd = { outcome: "aborted", exitCode: null, error: null };

const BOX_LOST: Failure = {
	boundary: "sandbox",
	code: "sandbox_lost",
	message: "the box died while the agent worked",
	retryable: true,
};

const CREDENTIAL_LOST: Failure = {
	boundary: "provider",
	code: "credential_lost",
	message: "the hold on the endpoint's credential could not be renewed, or another has taken it",
	retryable: true,
};

/** A trace that is full ends its rollout; the call that filled it is kept. */
function traceSink(rollout: Rollout, deps: Deps, halt: HaltSwitch): TraceWriter {
	let written = 0;
	return new TraceWriter(async (bytes) => {
		await deps.store.appendTrace(rollout.id, rollout.attempt, bytes);
		written += bytes.length;
		if (written > deps.maxTraceBytes) halt.halt({ type: "budget", what: "trace bytes" });
	});
}

/** Null when it had to stop before the agent could be talked to. */
async function open(ready: ReadyBox, halt: HaltSwitch): Promise<Conversation | null> {
	const directory = pathIn(ready.box, WORKDIR);
	const opening = within("agent", "agent_start_failed", () => ready.agent.open(directory), {
		retryable: true,
	});
	const conversation = await Promise.race([opening, halt.halted]);
	// One that opens all the same is let go; why one did not no longer matters.
	if (conversation === null) opening.then((late) => late[Symbol.asyncDispose]()).catch(() => {});
	return conversation;
}

async function attendedWork(
	rollout: Rollout,
	conversation: Conversation,
	transcript: Transcript,
	deps: Deps,
	record: RolloutRecord,
	halt: HaltSwitch,
): Promise<WorkEnd> {
	const { task, agent } = rollout.request;
	const allowance = new EventAllowance(() => record.note("the agent says too much: no more of it is kept"));
	const tell = (event: EventBody) => {
		if (allowance.take(event)) record.emit(event);
	};
	const attendant = new Attendant(toPolicy(agent), tell);
	using _listening = listen(conversation, record, transcript, tell);
	using _attending = attendant.attend(conversation);
	using _commands = takeCommands(rollout, deps, record, attendant);
	using _following = transcript.follow(conversation);
	return await workOff(conversation, attendant, task.instruction, halt.signal);
}

function listen(
	conversation: Conversation,
	record: RolloutRecord,
	transcript: Transcript,
	tell: (event: EventBody) => void,
): Disposable {
	return conversation.subscribe((event) => {
		if (event.type === "session-start") record.session(event.sessionId);
		if (event.type === "note") tell({ type: "note", text: event.text });
		if (event.type !== "agent-event") return;
		const { name, properties } = event;
		if (!isTelling(name, properties)) return;
		transcript.stirred();
		tell({ type: "agent-event", name, properties: shorten(properties) as Record<string, unknown> });
	});
}

/** What people say to a rollout may come from any process; the store tells. */
function takeCommands(rollout: Rollout, deps: Deps, record: RolloutRecord, attendant: Attendant): Disposable {
	const { id, attempt } = rollout;
	let obeyed = 0;
	const take = coalesce(
		async () => {
			for (const { number, command } of await deps.store.commands(id, attempt)) {
				// Dropping what was obeyed before may have failed.
				if (number > obeyed) await attendant.obey(command);
				obeyed = number;
				await deps.store.dropCommands(id, attempt, number);
			}
		},
		(error) => record.note(`commands could not be read: ${messageOf(error)}`),
	);
	const watching = deps.store.watch(id, take);
	take();
	return watching;
}

function toPolicy(agent: AgentOptions): AttendantPolicy {
	return {
		permission: agent.permission,
		rules: agent.permissionRules,
		deadlineMs: toTimerMs(agent.permissionDeadlineS * 1000),
		otherwise: agent.permissionDefault,
	};
}

interface Settled {
	outcome: Outcome;
	failure: Failure | null;
}

/** What stopped it from outside explains the end best; then the true upstream error; then what the agent said. */
function settle(end: WorkEnd, halt: Halt | null, tap: Tap): Settled {
	if (halt?.type === "failure") return { outcome: "failed", failure: halt.failure };
	if (halt) return { outcome: halt.type, failure: null };
	// An agent that aborts itself has ended by itself: it gets the verdict it would like to avoid.
	if (end.outcome !== "failed") return { outcome: "completed", failure: null };
	if (tap.lastUpstreamError) return { outcome: "failed", failure: tap.lastUpstreamError };
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
 * An agent that has had its first answer may have run anything: it can kill its own program, ask the model for nonsense, fill its disk.
 * That is an end like any other, and gets its verdict. What came before, or could not come from inside its box, is a failure.
 */
function blameRightly({ outcome, failure }: Settled, hasActed: boolean, record: RolloutRecord): Settled {
	if (failure === null || !hasActed) return { outcome, failure };
	const isItsOwn = failure.boundary === "agent" || PROVOKED.has(failure.code);
	if (!isItsOwn) return { outcome, failure };
	record.note(`the agent's work ended with ${failure.code}: ${failure.message}`);
	return { outcome: "completed", failure: null };
}

/** The transcript is evidence written by the agent: worth keeping, not worth failing for. */
async function keepEvidence(
	rollout: Rollout,
	ready: ReadyBox,
	conversation: Conversation | null,
	transcript: Transcript,
	record: RolloutRecord,
): Promise<void> {
	const ms = rollout.request.task.clocks.teardownS * 1000;
	await leaveEvents(ready, record, ms);
	const late = () => new RolloutError("agent", "agent_api_error", "the agent did not hand it over in time");
	try {
		if (conversation !== null) await inTime(transcript.keep(conversation), { ms, late });
		record.logs.agentSaid(await ready.agent.logTail());
	} catch (error) {
		if (!isOfTheBox(error)) throw error;
		record.note(`the transcript could not be read at the end: ${messageOf(error)}`);
	}
}

/** The agent's program, and its box, are what an agent can break; the store is not. */
function isOfTheBox(error: unknown): boolean {
	return !(error instanceof RolloutError) || error.boundary === "agent" || error.boundary === "sandbox";
}

/** Its own events, where tasks and people look for them. What the agent did to that folder is its own affair. */
async function leaveEvents(ready: ReadyBox, record: RolloutRecord, ms: number): Promise<void> {
	const path = `${pathIn(ready.box, AGENT_LOG_DIR)}/opencode.jsonl`;
	const late = () => unresponsiveBox("writing the agent's events", ms / 1000);
	try {
		await inTime(ready.box.writeFile(path, record.logs.agentEvents), { ms, late });
	} catch (error) {
		record.note(`opencode.jsonl could not be written: ${messageOf(error)}`);
	}
}
