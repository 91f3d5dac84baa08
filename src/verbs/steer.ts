import type { Config } from "../config.ts";
import { UsageError } from "../errors.ts";
import { kindOf } from "../model/id.ts";
import type { Queue } from "../queue/queue.ts";
import type { Store } from "../store/store.ts";
import { closed } from "./converse.ts";
import { requireConsent } from "./kept-conversation.ts";
import { requireSpeaker } from "./speaker.ts";
import { isStorable, requireStorable } from "./storable-text.ts";
import type { Steering } from "./verbs.ts";

/** A say in what runs, wherever it runs: what is said is stored, and whoever runs the rollout reads it. */
export function steering(config: Config, store: Store, queue: Queue): Steering {
	return {
		async abort(target) {
			if (!Object.values(target).every(isStorable)) return [];
			if ("id" in target && kindOf(target.id) !== "rollout") return [];
			const rows = await store.requestAbort(target);
			const hit = rows.map(({ id }) => id);
			await queue.cancel(hit);
			// What runs is its worker's to end. Where that is dead, to begin it once more is to end it.
			const running = rows.filter(({ ended }) => !ended).map(({ id }) => id);
			for (const id of await queue.leftBehind(running)) await store.begin(id, "abort");
			return hit;
		},
		async command(id, command) {
			requireStorable(command, "command");
			requireSpeaker(command.by);
			if (!isStorable(id)) return false;
			if (kindOf(id) === "conversation") requireConsent(await store.conversation(id), config);
			if (await store.post(id, command)) return true;
			if ((await store.row(id)) === null) return false;
			throw kindOf(id) === "conversation" ? closed(id) : ended(id);
		},
	};
}

function ended(id: string): UsageError {
	return new UsageError(`rollout ${id} has ended and hears nothing any more`, "rollout_ended");
}
