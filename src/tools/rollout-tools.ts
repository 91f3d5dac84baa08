import { z } from "zod";
import { UsageError } from "../errors.ts";
import { RolloutResult } from "../model/result.ts";
import type { Paddock } from "../paddock.ts";
import { RolloutArguments, readArguments } from "./arguments.ts";
import { followToEnd } from "./follow.ts";
import { toRolloutRequest } from "./request.ts";
import { resultOf, unknownRollout } from "./result.ts";
import type { Tool, ToolContext } from "./tools.ts";

const Started = z.object({
	rollout_id: z.string(),
	task_id: z.string(),
	status: z.literal("starting"),
	started_at: z.number().describe("Seconds since the epoch"),
});

const FinalizeArguments = z.strictObject({
	rollout_id: z.string().min(1).max(120).describe("As start_rollout returned it"),
	wait_s: z
		.number()
		.min(0)
		.max(3600)
		.nullish()
		.describe("How long to wait for the end. Default 300; over a plain OpenEnv client stay below 50"),
});

/** The tools that start rollouts and hand over their results. */
export function rolloutTools(paddock: Paddock): Tool[] {
	return [
		{
			name: "run_rollout",
			title: "Run a rollout",
			description:
				"Runs the OpenCode agent on a task in a sandbox, verifies the outcome in a clean one, and returns reward, transcript tokens, files and logs. Blocks until the end; for long rollouts use start_rollout and finalize_rollout.",
			input: RolloutArguments,
			output: RolloutResult,
			isLong: true,
			readOnly: false,
			async run(value, context) {
				const rollout = await submit(paddock, value, context);
				await followToEnd(paddock, rollout.id, context);
				if (context.signal.aborted && context.whenAbandoned() === "abort")
					await paddock.abort({ id: rollout.id });
				context.signal.throwIfAborted();
				return resultOf(paddock, rollout.id);
			},
		},
		{
			name: "start_rollout",
			title: "Start a rollout",
			description:
				"Takes the same arguments as run_rollout and returns at once with rollout_id. Follow it with get_state or subscribe_events, end it with abort_rollout, collect it with finalize_rollout.",
			input: RolloutArguments,
			output: Started,
			isLong: false,
			readOnly: false,
			async run(value, context) {
				const rollout = await submit(paddock, value, context);
				return {
					rollout_id: rollout.id,
					task_id: rollout.taskId,
					status: "starting",
					started_at: rollout.createdAt / 1000,
				};
			},
		},
		{
			name: "finalize_rollout",
			title: "Wait for a rollout and get its result",
			description:
				"Waits for the end, at most wait_s, and returns the same as run_rollout. When the time is up first, `error` says so and nothing is lost: call it again.",
			input: FinalizeArguments,
			output: RolloutResult,
			isLong: true,
			readOnly: true,
			async run(value, context) {
				const { rollout_id: id, wait_s } = readArguments(FinalizeArguments, value);
				if ((await paddock.store.row(id)) === null) throw unknownRollout(id);
				await followToEnd(paddock, id, context, (wait_s ?? 300) * 1000);
				context.signal.throwIfAborted();
				return resultOf(paddock, id);
			},
		},
	];
}

async function submit(paddock: Paddock, value: unknown, context: ToolContext) {
	const { env, sandbox, queueLimit } = paddock.config;
	const { request, idempotencyKey } = toRolloutRequest(value, { env, sandbox, door: context.door });
	const isRepeat = idempotencyKey !== undefined && (await paddock.store.isSubmitted(idempotencyKey));
	if (!isRepeat && (await paddock.queue.depth()) >= queueLimit)
		throw new UsageError(`${queueLimit} rollouts are waiting already; try again later`, "queue_full");
	const { rollouts } = await paddock.submit(request, idempotencyKey === undefined ? {} : { idempotencyKey });
	const rollout = rollouts[0];
	if (rollout === undefined) throw new Error("submit made no rollout");
	return rollout;
}
