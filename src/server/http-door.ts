import type { Log } from "../log.ts";
import type { Rollout, RolloutRow } from "../model/rollout.ts";
import type { Paddock } from "../paddock.ts";
import { notFound } from "./problem.ts";

/** The HTTP door: what every handler may use. */
export interface HttpDoor {
	readonly paddock: Paddock;
	readonly log: Log;
	/** Fires when the server begins to close: streams end, so that callers reconnect elsewhere. */
	readonly closing: AbortSignal;
	readonly keepAliveMs: number;
	readonly isReadOnly: boolean;
}

export async function requireRollout({ paddock }: HttpDoor, id: string): Promise<Rollout> {
	return known(await paddock.rollout(id), "rollout", id);
}

/** For whoever needs neither task nor summary. */
export async function requireRow({ paddock }: HttpDoor, id: string): Promise<RolloutRow> {
	return known(await paddock.row(id), "rollout", id);
}

/** What a verb found; null is a 404. */
export function known<T>(
	found: T | null,
	what: "rollout" | "group" | "batch" | "conversation",
	id: string,
): T {
	if (found === null) throw notFound(what, id);
	return found;
}

/** Aborts when the caller hangs up or the server closes; lets go of both once it has fired. */
export function stopWith(door: HttpDoor, caller: AbortSignal): AbortController {
	const stop = new AbortController();
	const fire = () => stop.abort();
	for (const signal of [caller, door.closing]) {
		if (signal.aborted) fire();
		else signal.addEventListener("abort", fire, { once: true, signal: stop.signal });
	}
	return stop;
}
