import { setTimeout as delay } from "node:timers/promises";
import { isOutage } from "../errors.ts";
import type { Store } from "./store.ts";

const PATIENCE_MS = 60_000;
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;

/** What a running rollout writes, and would be lost for if it were not written. */
const PATIENT: ReadonlySet<PropertyKey> = new Set<keyof Store>([
	...(["begin", "patch", "requeue", "finish", "append", "appendTrace", "putBlob"] as const),
	...(["commands", "dropCommands", "row", "secret", "events", "lastBlob"] as const),
]);

/**
 * The same store, for those who run rollouts: an outage of a minute costs them nothing, since a change that was refused
 * with one has not happened and can be tried again. Callers who wait for an answer use the plain one, and are told at
 * once.
 */
export function patient(store: Store, patienceMs = PATIENCE_MS): Store {
	return new Proxy(store, {
		get(target, name) {
			const value: unknown = Reflect.get(target, name, target);
			if (typeof value !== "function") return value;
			const method = value.bind(target) as (...values: unknown[]) => Promise<unknown>;
			if (!PATIENT.has(name)) return method;
			return (...values: unknown[]) => patiently(() => method(...values), patienceMs);
		},
	});
}

async function patiently<T>(act: () => Promise<T>, patienceMs: number): Promise<T> {
	const until = performance.now() + patienceMs;
	for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
		try {
			return await act();
		} catch (error) {
			const isOver = performance.now() + waitMs > until;
			if (isOver || !isOutage(error)) throw error;
		}
		await delay(waitMs, undefined, { ref: false });
	}
}
