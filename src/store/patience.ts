import { setTimeout as delay } from "node:timers/promises";
import { isOutage } from "../errors.ts";
import { overlay } from "./overlay.ts";
import type { Store } from "./store.ts";

const PATIENCE_MS = 60_000;
const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 5_000;

/** What a running rollout writes, and would be lost for if it were not written. */
const PATIENT = [
	...["begin", "patch", "requeue", "finish", "append", "appendTrace", "putBlob", "commands", "dropCommands"],
	...["row", "secret"],
] as const satisfies (keyof Store)[];

/**
 * The same store, for those who run rollouts: an outage of a minute costs them nothing, since a change that was refused
 * with one has not happened and can be tried again. Callers who wait for an answer use the plain one, and are told at
 * once.
 */
export function patient(store: Store, patienceMs = PATIENCE_MS): Store {
	const waiting: Record<string, unknown> = {};
	for (const name of PATIENT) {
		const method = store[name].bind(store) as (...values: unknown[]) => Promise<unknown>;
		waiting[name] = (...values: unknown[]) => patiently(() => method(...values), patienceMs);
	}
	return overlay(store, waiting as Partial<Store>);
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
