import type { Tap } from "../gateway/gateway.ts";
import type { CallSummary } from "../model/call.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { Failure } from "../model/failure.ts";
import type { Rollout } from "../model/rollout.ts";
import { TraceWriter } from "../store/trace/trace-log.ts";
import type { ReadyBox } from "./boxes/ready-box.ts";
import type { Deps } from "./deps.ts";
import type { HaltSwitch } from "./halt.ts";
import type { RolloutRecord } from "./record.ts";

/** The agent's way to its model, captured and on the record; what the gateway cannot let pass halts it. */
export function openTap(
	rollout: Rollout,
	ready: ReadyBox,
	endpoint: Endpoint,
	deps: Deps,
	record: RolloutRecord,
	halt: HaltSwitch,
	onCall: (call: CallSummary) => void = () => {},
): Tap {
	const { request } = rollout;
	return deps.gateway.openTap({
		rolloutId: rollout.id,
		attempt: rollout.attempt,
		boxId: ready.box.id,
		key: ready.key,
		endpoint,
		sampling: request.sampling,
		budget: request.task.budget,
		...(request.mode === "black_box" ? {} : { sink: traceSink(rollout, deps, halt) }),
		onCallStart: (call) => record.emit({ type: "call-start", ...call }),
		onCallEnd: (call) => {
			record.called(call);
			onCall(call);
		},
		onStop: (stop) => halt.halt(stop),
	});
}

export const BOX_LOST: Failure = {
	boundary: "sandbox",
	code: "sandbox_lost",
	message: "the box died while the agent worked",
	retryable: true,
};

export const CREDENTIAL_LOST: Failure = {
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
