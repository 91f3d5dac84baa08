import { z } from "zod";
import type { Paddock } from "../paddock.ts";
import { unknownRollout } from "./result.ts";
import { rolloutId, type Tool, ToolStatus, tool, toToolStatus } from "./tools.ts";

const SubscribeArguments = z.strictObject({
	rollout_id: rolloutId,
	cursor: z.int().min(0).nullish().describe("next_cursor of the answer before; absent: from the beginning"),
	wait_s: z.number().min(0).max(45).nullish().describe("How long to wait for something new. Default 25"),
	limit: z.int().min(1).max(1000).nullish().describe("At most so many events. Default 200"),
});

const Events = z.object({
	rollout_id: z.string(),
	status: ToolStatus,
	events: z.array(z.record(z.string(), z.unknown())),
	next_cursor: z.int(),
	done: z.boolean().describe("The last event has been handed out"),
	sse_url: z.string().describe("The same events as a server-sent stream"),
});

export function subscribeEvents(paddock: Paddock): Tool {
	return tool({
		name: "subscribe_events",
		title: "What happened since",
		description:
			"Events after `cursor`, waiting up to wait_s for the first new one. Call again with next_cursor until done.",
		input: SubscribeArguments,
		output: Events,
		isLong: true,
		readOnly: true,
		async run({ rollout_id: id, cursor, wait_s, limit }, { signal, origin = "" }) {
			const waitMs = (wait_s ?? 25) * 1000;
			const page = await paddock.events(id, { after: cursor ?? 0, limit: limit ?? 200, waitMs, signal });
			signal.throwIfAborted();
			const rollout = await paddock.row(id);
			if (page === null || rollout === null) throw unknownRollout(id);
			return {
				rollout_id: id,
				status: toToolStatus(rollout),
				events: page.items,
				next_cursor: page.next,
				done: page.done,
				sse_url: `${origin}/api/v1/rollouts/${encodeURIComponent(id)}/events`,
			};
		},
	});
}
