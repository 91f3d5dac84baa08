import { z } from "zod";
import type { RolloutRow } from "../model/rollout.ts";
import type { Paddock } from "../paddock.ts";
import { asGiven } from "./result.ts";
import { ById, type Tool, ToolStatus, tool, toToolStatus, UNKNOWN_ID } from "./tools.ts";

const State = z.object({
	rollout_id: z.string(),
	task_id: z.string(),
	status: ToolStatus,
	phase: z.string().nullable(),
	serve_session_id: z.string().nullable(),
	proxy_turns_so_far: z.int(),
	error: z.string().nullable(),
	started_at: z.number().nullable(),
	finished_at: z.number().nullable(),
	outcome: z.string().nullable(),
	reward: z.number().nullable(),
	attempt: z.int(),
});
type State = z.infer<typeof State>;

export function getState(paddock: Paddock): Tool {
	return tool({
		name: "get_state",
		title: "Where a rollout stands",
		description: "Status, phase and counts of a rollout. An unknown id is status unknown, not an error.",
		input: ById,
		output: State,
		isLong: false,
		readOnly: true,
		async run({ rollout_id: id }) {
			const rollout = await paddock.row(id);
			return rollout === null ? unknownState(id) : toState(rollout);
		},
	});
}

function toState(rollout: RolloutRow): State {
	return {
		rollout_id: rollout.id,
		task_id: asGiven(rollout.taskId),
		status: toToolStatus(rollout),
		phase: rollout.phase,
		serve_session_id: rollout.sessionId ?? null,
		proxy_turns_so_far: rollout.calls,
		error: rollout.failure?.message ?? null,
		started_at: (rollout.startedAt ?? rollout.createdAt) / 1000,
		finished_at: rollout.finishedAt === null ? null : rollout.finishedAt / 1000,
		outcome: rollout.outcome,
		reward: rollout.reward,
		attempt: rollout.attempt,
	};
}

function unknownState(id: string): State {
	return {
		rollout_id: id,
		task_id: "",
		status: "unknown",
		phase: null,
		serve_session_id: null,
		proxy_turns_so_far: 0,
		error: UNKNOWN_ID,
		started_at: null,
		finished_at: null,
		outcome: null,
		reward: null,
		attempt: 0,
	};
}
