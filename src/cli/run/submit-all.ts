import type { RolloutRequest } from "../../model/request.ts";
import { plural } from "../terminal/figures.ts";
import { newRow, type Row } from "../terminal/progress.ts";
import { type Interrupt, onInterrupt } from "./interrupt.ts";
import type { Workplace } from "./workplace.ts";

export interface Submission {
	/** By rollout; empty after an interrupt. */
	rows: Map<string, Row>;
	/** The person wanted it to end before everything was submitted. */
	interrupt: Interrupt | null;
}

/** Submits everything, or leaves nothing to run unwatched: after a failure or an interrupt what was submitted is aborted. */
export async function submitAll(
	plan: { requests: readonly RolloutRequest[]; n: number },
	workplace: Workplace,
	say: (message: string) => void,
): Promise<Submission> {
	const rows = new Map<string, Row>();
	const stop = new AbortController();
	let interrupt: Interrupt | null = null;
	using _interrupts = onInterrupt((asked) => {
		interrupt = asked;
		stop.abort();
	});
	try {
		for await (const submitted of workplace.submit(plan.requests, plan.n, stop.signal)) {
			const { id, taskId, index, groupId } = submitted;
			const name = plan.n === 1 ? taskId : `${taskId} #${index + 1}`;
			rows.set(id, newRow(id, name, taskId, groupId));
		}
		stop.signal.throwIfAborted();
		return { rows, interrupt: null };
	} catch (error) {
		await takeBack([...rows.keys()], workplace, say);
		if (interrupt === null) throw error;
		return { rows: new Map(), interrupt };
	}
}

async function takeBack(
	ids: readonly string[],
	workplace: Workplace,
	say: (message: string) => void,
): Promise<void> {
	const aborts = await Promise.allSettled(ids.map((id) => workplace.abort(id)));
	const left = ids.filter((_, index) => aborts[index]?.status === "rejected");
	const aborted = ids.length - left.length;
	if (aborted > 0) say(`Aborted what was submitted already: ${plural(aborted, "rollout")}.`);
	if (left.length > 0) say(`Submitted already, and could not be aborted: ${left.join(" ")}`);
}
