import { z } from "zod";
import { RolloutResult } from "../model/result.ts";
import type { Paddock } from "../paddock.ts";
import { followToEnd } from "./follow.ts";
import { Include, onlyParts, resultOf } from "./result.ts";
import { rolloutId, type Tool, tool } from "./tools.ts";

const FinalizeArguments = z.strictObject({
	rollout_id: rolloutId,
	wait_s: z
		.number()
		.min(0)
		.max(3600)
		.nullish()
		.describe("How long to wait for the end. Default 300; over a plain OpenEnv client stay below 50"),
	include: Include,
});

export function finalizeRollout(paddock: Paddock): Tool {
	return tool({
		name: "finalize_rollout",
		title: "Wait for a rollout and get its result",
		description:
			"Waits for the end, at most wait_s, and returns the same as run_rollout. When the time is up first, `error` says so, exit_code is -1 and nothing is lost: call it again. Of an unknown id `error` says that.",
		input: FinalizeArguments,
		output: RolloutResult,
		isLong: true,
		readOnly: true,
		async run({ rollout_id: id, wait_s, include }, context) {
			await followToEnd(paddock, id, context, (wait_s ?? 300) * 1000);
			context.signal.throwIfAborted();
			return onlyParts(await resultOf(paddock, id), include);
		},
	});
}
