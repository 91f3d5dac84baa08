import type { AgentEnd, AgentListener, AgentRun } from "../agent/agent.ts";
import { messageOf, RolloutError, within } from "../errors.ts";
import type { Tap } from "../gateway/gateway.ts";
import { toTimerMs } from "../model/duration.ts";
import type { Failure, Outcome } from "../model/failure.ts";
import type { Rollout } from "../model/rollout.ts";
import { HOME, WORKDIR } from "../model/task.ts";
import { TraceWriter } from "../store/trace/trace-log.ts";
import { Attendant } from "./attendant.ts";
import { inTime } from "./clock.ts";
import type { Deps } from "./deps.ts";
import { castEndpoint } from "./endpoint.ts";
import { EventAllowance } from "./event-allowance.ts";
import { type Halt, HaltSwitch } from "./halt.ts";
import type { ReadyBox } from "./ready-box.ts";
import type { RolloutRecord } from "./record.ts";

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
	using cast = await castEndpoint(rollout, deps);
	using _slot = await deps.endpointSlots.enter(cast.endpoint.baseUrl, signal);
	await using tap = deps.gateway.openTap({
		rolloutId: rollout.id,
		attempt: rollout.attempt,
		boxId: ready.box.id,
		key: ready.key,
		endpoint: cast.endpoint,
		sampling: request.sampling,
		budget: request.task.budget,
		...(request.mode === "black_box" ? {} : { sink: traceSink(rollout, deps) }),
		onCallStart: (call) => record.emit({ type: "call-start", ...call }),
		onCallEnd: (call) => {
			record.called(call);
			// A model that asks for no tool has nearly always finished: its agent ends some 50 ms later.
			if (call.purpose === "main" && call.finishReason === "stop") onLastWord();
		},
		onStop: (stop) => halt.halt(stop),
	});
	// Whatever halts it, the engine stops generating at once; the agent's own end and the evidence may take their time.
	void halt.halted.then(() => tap.revoke());
	using _abort = halt.on(signal, { type: "aborted" });
	using _clock = halt.on(AbortSignal.timeout(toTimerMs(request.task.clocks.agentS * 1000)), {
		type: "timeout",
	});
	void ready.box.closed.then(() => halt.halt({ type: "failure", failure: BOX_LOST }));

	const attendant = new Attendant(rollout, deps.store, record);
	await using run = await begin(rollout, ready, listener(record, attendant), halt);
	const end = run === null ? NEVER_BEGAN : await attendedWork(run, attendant, halt);
	record.agentExitCode = end.exitCode;
	const { outcome, failure } = settle(end, halt.reason ?? tap.stop, tap);
	record.ended(outcome, failure);
	record.emit({ type: "agent-end", outcome, exitCode: end.exitCode });
	onLastWord();
	await keepEvidence(rollout, ready, run, attendant, deps, record);
}

const NEVER_BEGAN: AgentEnd = { outcome: "aborted", exitCode: null, error: null };

const BOX_LOST: Failure = {
	boundary: "sandbox",
	code: "sandbox_lost",
	message: "the box died while the agent worked",
	retryable: true,
};

function traceSink(rollout: Rollout, deps: Deps): TraceWriter {
	return new TraceWriter((bytes) => deps.store.appendTrace(rollout.id, rollout.attempt, bytes));
}

/** Null when it had to stop before the agent took the prompt. */
async function begin(
	rollout: Rollout,
	ready: ReadyBox,
	listener: AgentListener,
	halt: HaltSwitch,
): Promise<AgentRun | null> {
	const directory = WORKDIR.replace(HOME, ready.box.home);
	const { instruction } = rollout.request.task;
	const beginning = within(
		"agent",
		"agent_start_failed",
		() => ready.agent.begin({ directory, instruction }, listener),
		{ retryable: true },
	);
	const run = await Promise.race([beginning, halt.halted]);
	// One that begins all the same is let go; why one did not no longer matters.
	if (run === null) beginning.then((late) => late[Symbol.asyncDispose]()).catch(() => {});
	return run;
}

async function attendedWork(run: AgentRun, attendant: Attendant, halt: HaltSwitch): Promise<AgentEnd> {
	using _attending = attendant.attend(run);
	return await run.wait(halt.signal);
}

function listener(record: RolloutRecord, attendant: Attendant): AgentListener {
	const allowance = new EventAllowance(() => record.note("the agent says too much: no more of it is kept"));
	return {
		onSession: (sessionId) => record.session(sessionId),
		onEvent: (name, properties) => {
			if (allowance.take(properties)) record.emit({ type: "agent-event", name, properties });
			attendant.stirred();
		},
		onPermission: (ask) => {
			if (allowance.take(ask)) attendant.permission(ask);
		},
		onQuestion: (ask) => {
			if (allowance.take(ask)) attendant.question(ask);
		},
	};
}

/** What stopped it from outside explains the end best; then the true upstream error; then what the agent said. */
function settle(end: AgentEnd, halt: Halt | null, tap: Tap): { outcome: Outcome; failure: Failure | null } {
	if (halt?.type === "failure") return { outcome: "failed", failure: halt.failure };
	if (halt) return { outcome: halt.type, failure: null };
	// An agent that aborts itself has ended by itself: it gets the verdict it would like to avoid.
	if (end.outcome !== "failed") return { outcome: "completed", failure: null };
	if (tap.lastUpstreamError) return { outcome: "failed", failure: tap.lastUpstreamError };
	const crashed = end.error?.code === "agent_crashed" || end.error?.code === "agent_lost";
	const code = crashed ? end.error!.code : "agent_error";
	const message = end.error
		? `${end.error.code}: ${end.error.message}`
		: "the agent ended with an error it did not explain";
	return { outcome: "failed", failure: { boundary: "agent", code, message, retryable: crashed } };
}

/** The transcript is evidence written by the agent: worth keeping, not worth failing for. */
async function keepEvidence(
	rollout: Rollout,
	ready: ReadyBox,
	run: AgentRun | null,
	attendant: Attendant,
	deps: Deps,
	record: RolloutRecord,
): Promise<void> {
	const ms = rollout.request.task.clocks.teardownS * 1000;
	const late = () => new RolloutError("agent", "agent_api_error", "the agent did not hand it over in time");
	try {
		if (run !== null) await inTime(attendant.keepTranscript(run), { ms, late });
		await deps.store.putBlob(
			rollout.id,
			rollout.attempt,
			"agent.log",
			Buffer.from(await ready.agent.logTail()),
		);
	} catch (error) {
		if (error instanceof RolloutError && error.boundary !== "agent") throw error;
		record.note(`the transcript could not be read at the end: ${messageOf(error)}`);
	}
}
