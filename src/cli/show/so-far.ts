import type { CommandResult, RolloutEvent } from "../../model/event.ts";
import type { Paddock } from "../../paddock.ts";

const PAGE = 1000;

/** What a rollout that has not ended has done so far, by its events: of its newest attempt. */
export interface SoFar {
	setup: CommandResult[];
	verify: CommandResult[];
	/** The command that runs now, if one does: `setup 2/5: pip install …`. */
	now: string | null;
}

export async function readSoFar(paddock: Paddock, id: string): Promise<SoFar> {
	let soFar: SoFar = { setup: [], verify: [], now: null };
	let after = 0;
	for (;;) {
		const page = await paddock.events(id, { after, limit: PAGE });
		for (const event of page?.items ?? []) soFar = withEvent(soFar, event);
		if (page === null || page.items.length < PAGE) return soFar;
		after = page.next;
	}
}

export function withEvent(soFar: SoFar, event: RolloutEvent): SoFar {
	switch (event.type) {
		case "rollout-start":
			return { setup: [], verify: [], now: null };
		case "setup-start":
		case "verify-start":
			return { ...soFar, now: `${event.type.split("-")[0]} ${event.step}/${event.of}: ${event.cmd}` };
		case "setup-end":
			return { ...soFar, setup: [...soFar.setup, event.result], now: null };
		case "verify-end":
			return { ...soFar, verify: [...soFar.verify, event.result], now: null };
		default:
			return soFar;
	}
}
