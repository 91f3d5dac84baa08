import type { Log } from "../log.ts";
import type { Rollout, RolloutRow } from "../model/rollout.ts";
import type { Paddock } from "../paddock.ts";
import { notFound, ProblemError } from "./problem.ts";

/** The HTTP door: what every handler may use. */
export interface HttpDoor {
	readonly paddock: Paddock;
	readonly log: Log;
	/** Fires when the server begins to close: streams end, so that callers reconnect elsewhere. */
	readonly closing: AbortSignal;
	readonly keepAliveMs: number;
	readonly isReadOnly: boolean;
	/** Answers that are being streamed: each holds what its caller has not read yet. */
	readonly streams: Set<AbortController>;
	/** Those of them that are exports. */
	readonly exports: Set<AbortController>;
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

/** Each reads traces and makes samples as fast as it can: a few at a time leave everybody else their turn. */
const MAX_EXPORTS = 8;

/** The same for an export: of those only a few may be under way. */
export function openExport(door: HttpDoor, caller: AbortSignal): AbortController {
	if (door.exports.size >= MAX_EXPORTS) {
		const detail = `${MAX_EXPORTS} exports are under way: read or close one of them first`;
		throw new ProblemError(429, "too_many_streams", detail, { "retry-after": "5" });
	}
	const stop = openStream(door, caller);
	if (stop.signal.aborted) return stop;
	door.exports.add(stop);
	stop.signal.addEventListener("abort", () => door.exports.delete(stop), { once: true });
	return stop;
}

/** The same for an answer that is streamed; refused when too many are. Counted until it has fired. */
export function openStream(door: HttpDoor, caller: AbortSignal): AbortController {
	const { streams, paddock } = door;
	const { maxStreams } = paddock.config;
	if (streams.size >= maxStreams) {
		const detail = `${maxStreams} streams are open; close some, ask for pages, or raise PADDOCK_MAX_STREAMS`;
		throw new ProblemError(429, "too_many_streams", detail, { "retry-after": "5" });
	}
	const stop = stopWith(door, caller);
	if (stop.signal.aborted) return stop;
	streams.add(stop);
	stop.signal.addEventListener("abort", () => streams.delete(stop), { once: true });
	return stop;
}
