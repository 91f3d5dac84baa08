import type { Rollout } from "../model/rollout.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { RolloutEnd } from "../store/store.ts";
import { closing, inTime, unresponsiveBox } from "./clock.ts";
import { collect } from "./collect.ts";
import type { Deps } from "./deps.ts";
import { requireReachable, resolved } from "./endpoint.ts";
import { confined, covered, openPlanted } from "./login/open-planted.ts";
import { RolloutRecord } from "./record.ts";
import { solve, WAITS } from "./solve.ts";
import { Judge } from "./verdict/judge.ts";

/**
 * The story of one rollout. Open a box with the task in it and the agent waiting; let the agent work until it ends or is
 * stopped; end every process and take back the login that it may have had, while a clean box opens; verify there; keep
 * what is worth keeping; let everything close itself.
 *
 * It never throws for what happens in a rollout: failures are data on the record.
 */
export async function run(submitted: Rollout, given: Deps, stop: AbortSignal): Promise<RolloutEnd> {
	const record = new RolloutRecord(submitted, given.store, given.agent.version, stop);
	const signal = AbortSignal.any([stop, record.lost.signal]);
	const { teardownS } = submitted.request.task.clocks;
	const late = () => unresponsiveBox("ending the agent", teardownS);
	const say = (text: string) => record.note(text);
	const verdictIsDue = () => record.outcome !== "failed" && record.outcome !== "aborted";
	try {
		const rollout = await resolved(submitted, given);
		await requireReachable(rollout, given, signal);
		await using login = await openPlanted(rollout, given, say, { signal, onWait: () => say(WAITS) });
		const deps = login === null ? given : covered(given, login, record);
		const { request } = confined(rollout, login);
		const ready = await deps.boxes.open(request, record, signal, login ?? undefined);
		await using _closing = closing(ready, "the agent's box", teardownS, say);
		const judge = new Judge(rollout, ready, deps, record, signal);
		await using _leaving = closing(judge, "the clean box", teardownS, say);
		// The last to come is the first to go: told before any of the boxes closes, whatever happened.
		using _telling = { [Symbol.dispose]: () => record.emit({ type: "teardown-start" }) };
		await solve(rollout, ready, deps, record, signal, () => {
			if (verdictIsDue()) judge.prepare();
		});
		await inTime(ready.box.killAll(), { ms: teardownS * 1000, late }).catch(unlessBroken(ready.box));
		await login?.takeBack();
		if (verdictIsDue()) {
			record.phase("verify");
			await judge.judge();
		}
		record.phase("collect");
		await collect(rollout, ready.box, deps.store, record);
	} catch (error) {
		record.failed(error, signal);
	}
	await record.keepLogs();
	return await record.seal();
}

/** A box that has broken itself has nothing left to end, and its agent gets the verdict that it may have wanted to avoid. */
function unlessBroken(box: Sandbox): (error: unknown) => Promise<void> {
	return async (error) => {
		if (!(await box.hasBrokenItself())) throw error;
	};
}
