import type { Rollout } from "../model/rollout.ts";
import type { Store } from "../store/store.ts";

const PAGE = 500;

/** The agent's session in the current attempt; while a rollout runs only its events know it. */
export async function sessionIdOf(store: Store, rollout: Rollout): Promise<string | null> {
	if (rollout.summary !== null) return rollout.summary.sessionId;
	let isCurrent = false;
	for (let after = 0; ; ) {
		const events = await store.events(rollout.id, { after, limit: PAGE });
		for (const event of events) {
			if (event.type === "rollout-start") isCurrent = event.attempt === rollout.attempt;
			if (event.type === "session-start" && isCurrent) return event.sessionId;
		}
		const last = events.at(-1);
		if (last === undefined || events.length < PAGE) return null;
		after = last.seq;
	}
}
