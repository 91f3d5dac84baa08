import type { Log } from "../log.ts";
import type { Rollout, RolloutRow } from "../model/rollout.ts";
import type { Paddock } from "../paddock.ts";
import type { Admission } from "./admission.ts";
import { notFound } from "./problem.ts";

export type Store = Paddock["store"];

/** What every handler may use. */
export interface Door {
	readonly paddock: Paddock;
	readonly log: Log;
	readonly admission: Admission;
	/** Fires when the server begins to close: streams end, so that callers reconnect elsewhere. */
	readonly closing: AbortSignal;
	readonly keepAliveMs: number;
}

export async function requireRollout(door: Door, id: string): Promise<Rollout> {
	const rollout = await door.paddock.store.get(id);
	if (!rollout) throw notFound("rollout", id);
	return rollout;
}

/** For whoever needs neither task nor summary. */
export async function requireRow(door: Door, id: string): Promise<RolloutRow> {
	const row = await door.paddock.store.row(id);
	if (!row) throw notFound("rollout", id);
	return row;
}

/** Aborts when the caller hangs up or the server closes; lets go of both once it has fired. */
export function stopWith(door: Door, caller: AbortSignal): AbortController {
	const stop = new AbortController();
	const fire = () => stop.abort();
	for (const signal of [caller, door.closing]) {
		if (signal.aborted) fire();
		else signal.addEventListener("abort", fire, { once: true, signal: stop.signal });
	}
	return stop;
}
