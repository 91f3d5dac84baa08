import { z } from "zod";
import type { Paddock } from "../paddock.ts";
import { RolloutArguments } from "./arguments.ts";
import { asGiven } from "./result.ts";
import { submit } from "./submit.ts";
import { type Tool, tool } from "./tools.ts";

const Started = z.object({
	rollout_id: z.string(),
	task_id: z.string(),
	status: z.literal("starting"),
	started_at: z.number().describe("Seconds since the epoch"),
});

export function startRollout(paddock: Paddock): Tool {
	return tool({
		name: "start_rollout",
		title: "Start a rollout",
		description:
			"Takes the same arguments as run_rollout and returns at once with rollout_id. Follow it with get_state or subscribe_events, end it with abort_rollout, collect it with finalize_rollout.",
		input: RolloutArguments,
		output: Started,
		isLong: false,
		readOnly: false,
		async run(given, { door }) {
			const { id, taskId, createdAt } = await submit(paddock, given, door);
			return {
				rollout_id: id,
				task_id: asGiven(taskId),
				status: "starting" as const,
				started_at: createdAt / 1000,
			};
		},
	});
}
