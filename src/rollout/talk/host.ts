import type { ConversationEnd } from "../../model/conversation.ts";
import { toStart } from "../../model/event.ts";
import type { Outcome } from "../../model/failure.ts";
import type { Rollout } from "../../model/rollout.ts";
import { WORKDIR } from "../../model/task.ts";
import { pathIn, type Sandbox } from "../../sandbox/sandbox.ts";
import type { RolloutEnd } from "../../store/store.ts";
import { runCommand } from "../../verify/commands.ts";
import { closing, inTime, unresponsiveBox } from "../clock.ts";
import { collect } from "../collect.ts";
import type { Deps } from "../deps.ts";
import { RolloutRecord } from "../record.ts";
import { talkInBox } from "./in-box.ts";
import { recall } from "./recall.ts";
import { talkWithKept } from "./with-kept.ts";

/**
 * The story of one conversation, as a worker sees it. Remember what was said before; open a box with the agent waiting, or
 * turn to one that is kept on this machine; let people talk to it until it is closed; run what the caller wants run afterwards; keep
 * what is worth keeping.
 *
 * `close`: somebody wants it closed. `leave`: it has to go on elsewhere. `move`: it should, when the agent has nothing to do.
 */
export async function host(
	rollout: Rollout,
	deps: Deps,
	{ close, leave, move }: { close: AbortSignal; leave: AbortSignal; move?: AbortSignal | undefined },
): Promise<RolloutEnd> {
	const record = new RolloutRecord(rollout, deps.store, deps.agent.version, AbortSignal.any([close, leave]));
	const gone = AbortSignal.any([leave, record.lost.signal]);
	const signal = AbortSignal.any([close, gone]);
	const { teardownS } = rollout.request.task.clocks;
	const late = () => unresponsiveBox("ending the agent", teardownS);
	let closed: ConversationEnd | null = close.aborted ? "asked" : null;
	try {
		const isKept = rollout.request.conversation?.keptAgent !== undefined;
		const past = await recall(deps.store, rollout.id, { isKept });
		const signals = { close, leave: gone, move };
		const ready = isKept ? null : await deps.boxes.open(rollout.request, record, signal);
		await using _closing = ready && closing(ready, "the agent's box", teardownS, (text) => record.note(text));
		using _telling = ready && { [Symbol.dispose]: () => record.emit({ type: "teardown-start" }) };
		const end =
			ready === null
				? await talkWithKept(rollout, past, deps, record, signals)
				: await talkInBox(rollout, past, ready, deps, record, signals);
		({ closed } = end);
		record.ended(closed === null ? "aborted" : OUTCOMES[closed], end.failure);
		if (ready !== null && closed !== null && end.failure === null) {
			await runAfter(rollout, ready.box, record, gone);
			await inTime(ready.box.killAll(), { ms: teardownS * 1000, late });
			record.phase("collect");
			await collect(rollout, ready.box, deps.store, record);
		}
	} catch (error) {
		record.failed(error, signal);
		if (close.aborted && record.outcome === "aborted") closed = "asked";
	}
	await record.keepLogs();
	const end = await record.seal();
	if (end.outcome === "failed") return { ...end, closed: "failed" };
	return closed === null ? end : { ...end, outcome: OUTCOMES[closed], closed };
}

const OUTCOMES: Record<ConversationEnd, Outcome> = {
	asked: "completed",
	idle: "timeout",
	lifetime: "timeout",
	budget: "budget",
	failed: "failed",
};

/** The caller's last commands; how each ended is on the record, and none keeps the conversation open. */
async function runAfter(
	rollout: Rollout,
	box: Sandbox,
	record: RolloutRecord,
	signal: AbortSignal,
): Promise<void> {
	const { after } = rollout.request.conversation!;
	const deadline = Date.now() + rollout.request.task.clocks.setupS * 1000;
	for (const [index, command] of after.entries()) {
		record.emit({ type: "after-start", ...toStart(command, index, after.length) });
		const timeoutMs = Math.max(1, deadline - Date.now());
		const options = { cwd: pathIn(box, WORKDIR), timeoutMs, signal };
		record.emit({ type: "after-end", result: await runCommand(box, command, options) });
	}
}
