import type { EventBody } from "../model/event.ts";
import { overlay } from "../store/overlay.ts";
import type { Store } from "../store/store.ts";

/** Told of everything that this process writes into event logs. */
export type Observer = (rolloutId: string, at: number, event: EventBody) => void;

/** The same store; `observers` hear of each event once it is durable. */
export function observeStore(store: Store, ...observers: Observer[]): Store {
	const tell: Observer = (rolloutId, at, event) => {
		for (const observer of observers) observer(rolloutId, at, event);
	};
	// Whole calls are passed on: an argument that is left out here would be lost to everybody.
	const observed: Partial<Store> = {
		async begin(...call) {
			const rollout = await store.begin(...call);
			const [id, worker] = call;
			if (rollout) tell(id, Date.now(), { type: "rollout-start", attempt: rollout.attempt, worker });
			return rollout;
		},
		async append(...call) {
			const stored = await store.append(...call);
			for (const event of stored) tell(event.rolloutId, event.at, event);
			return stored;
		},
		async requeue(...call) {
			const isOurs = await store.requeue(...call);
			const [id, attempt, failure] = call;
			if (isOurs) tell(id, Date.now(), { type: "attempt-failed", attempt, failure });
			return isOurs;
		},
		async finish(...call) {
			const isOurs = await store.finish(...call);
			const [id, attempt, end] = call;
			const { outcome, reward, failure } = end;
			if (isOurs) tell(id, Date.now(), { type: "rollout-end", outcome, reward, failure, attempt });
			return isOurs;
		},
		async requestAbort(target) {
			const hits = await store.requestAbort(target);
			const end = { type: "rollout-end", outcome: "aborted", reward: null, failure: null } as const;
			// Running ones end in their worker, and are told of there.
			for (const { id, attempt, ended } of hits) if (ended) tell(id, Date.now(), { ...end, attempt });
			return hits;
		},
	};
	return overlay(store, observed);
}
