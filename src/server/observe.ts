import type { EventBody } from "../model/event.ts";
import type { Store } from "./door.ts";

/** Told of everything that this process writes into event logs. */
export type Observer = (rolloutId: string, at: number, event: EventBody) => void;

/** The same store; `observers` hear of each event once it is durable. */
export function observeStore(store: Store, ...observers: Observer[]): Store {
	const tell: Observer = (rolloutId, at, event) => {
		for (const observer of observers) observer(rolloutId, at, event);
	};
	const observed: Partial<Store> = {
		async begin(id, worker) {
			const rollout = await store.begin(id, worker);
			if (rollout) tell(id, Date.now(), { type: "rollout-start", attempt: rollout.attempt, worker });
			return rollout;
		},
		async append(id, attempt, events) {
			const stored = await store.append(id, attempt, events);
			for (const event of stored) tell(id, event.at, event);
			return stored;
		},
		async requeue(id, attempt, failure) {
			const isOurs = await store.requeue(id, attempt, failure);
			if (isOurs) tell(id, Date.now(), { type: "attempt-failed", attempt, failure });
			return isOurs;
		},
		async finish(id, attempt, end) {
			const isOurs = await store.finish(id, attempt, end);
			const { outcome, reward, failure } = end;
			if (isOurs) tell(id, Date.now(), { type: "rollout-end", outcome, reward, failure, attempt });
			return isOurs;
		},
		async requestAbort(target) {
			const ids = await store.requestAbort(target);
			for (const id of ids) {
				// Queued ones have ended with this; running ones end in their worker, and are told of there.
				const rollout = await store.get(id);
				if (rollout?.status !== "done" || rollout.outcome !== "aborted") continue;
				const { reward, failure, attempt } = rollout;
				tell(id, Date.now(), { type: "rollout-end", outcome: "aborted", reward, failure, attempt });
			}
			return ids;
		},
	};
	return new Proxy(store, {
		get(target, name) {
			const own = observed[name as keyof Store];
			if (own) return own;
			const value: unknown = Reflect.get(target, name, target);
			return typeof value === "function" ? value.bind(target) : value;
		},
	});
}
