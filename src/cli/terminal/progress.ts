import type { Phase, RolloutEvent } from "../../model/event.ts";
import type { Failure, Outcome } from "../../model/failure.ts";

/** What the displays know of one rollout; read off its event log and nothing else. */
export interface Row {
	readonly id: string;
	readonly name: string;
	/** Rollouts of the same task have this in common. */
	readonly task: string;
	readonly groupId: string | null;
	readonly phase: Phase;
	/** What runs in it just now, where that is known: `2/5: pip install …`. */
	readonly step: string | null;
	readonly attempt: number;
	/** Milliseconds since the epoch; null while it waits in the queue. */
	readonly startedAt: number | null;
	readonly endedAt: number | null;
	readonly calls: number;
	/** A call is being answered right now. */
	readonly calling: boolean;
	readonly promptTokens: number;
	readonly completionTokens: number;
	readonly outcome: Outcome | null;
	readonly reward: number | null;
	readonly failure: Failure | null;
}

export function newRow(id: string, name: string, task = name, groupId: string | null = null): Row {
	return {
		id,
		name,
		task,
		groupId,
		phase: "queued",
		step: null,
		attempt: 0,
		startedAt: null,
		endedAt: null,
		calls: 0,
		calling: false,
		promptTokens: 0,
		completionTokens: 0,
		outcome: null,
		reward: null,
		failure: null,
	};
}

export function advance(row: Row, event: RolloutEvent): Row {
	switch (event.type) {
		case "rollout-start":
			// A new attempt counts from the beginning, as its result will.
			return {
				...newRow(row.id, row.name, row.task, row.groupId),
				attempt: event.attempt,
				phase: "create",
				startedAt: event.at,
			};
		case "phase-start":
			return { ...row, phase: event.phase, step: null };
		case "setup-start":
		case "verify-start":
			return { ...row, step: `${event.step}/${event.of}: ${event.cmd}` };
		case "setup-end":
		case "verify-end":
			return { ...row, step: null };
		case "teardown-start":
			return { ...row, step: "closing its boxes" };
		case "call-start":
			return { ...row, calling: true };
		case "call-end":
			return {
				...row,
				calling: false,
				calls: row.calls + 1,
				promptTokens: row.promptTokens + event.call.promptTokens,
				completionTokens: row.completionTokens + event.call.completionTokens,
			};
		case "reward":
			return { ...row, reward: event.reward };
		case "rollout-end":
			return {
				...row,
				phase: "done",
				step: null,
				calling: false,
				endedAt: event.at,
				outcome: event.outcome,
				reward: event.reward,
				failure: event.failure,
				attempt: event.attempt,
			};
		default:
			return row;
	}
}

export function elapsedS(row: Row, now: number): number {
	if (row.startedAt === null) return 0;
	return Math.max(0, (row.endedAt ?? now) - row.startedAt) / 1000;
}

export interface Totals {
	all: number;
	done: number;
	running: number;
	queued: number;
	calls: number;
	promptTokens: number;
	completionTokens: number;
}

export function totalsOf(rows: Iterable<Row>): Totals {
	const totals = { all: 0, done: 0, running: 0, queued: 0, calls: 0, promptTokens: 0, completionTokens: 0 };
	for (const row of rows) {
		totals.all += 1;
		if (row.phase === "done") totals.done += 1;
		else if (row.startedAt === null) totals.queued += 1;
		else totals.running += 1;
		totals.calls += row.calls;
		totals.promptTokens += row.promptTokens;
		totals.completionTokens += row.completionTokens;
	}
	return totals;
}
