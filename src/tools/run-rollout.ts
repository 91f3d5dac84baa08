import { RolloutResult } from "../model/result.ts";
import type { Paddock } from "../paddock.ts";
import { RolloutArguments } from "./arguments.ts";
import { followToEnd } from "./follow.ts";
import { Include, onlyParts, resultOf } from "./result.ts";
import { submit } from "./submit.ts";
import { type Tool, tool } from "./tools.ts";

export function runRollout(paddock: Paddock): Tool {
	return tool({
		name: "run_rollout",
		title: "Run a rollout",
		description:
			"Runs the OpenCode agent on a task in a sandbox, verifies the outcome in a clean one, and returns reward, transcript tokens, files and logs. Blocks until the end; for long rollouts use start_rollout and finalize_rollout.",
		input: RolloutArguments.extend({ include: Include }),
		output: RolloutResult,
		isLong: true,
		readOnly: false,
		async run({ include, ...given }, context) {
			const { id } = await submit(paddock, given, context.door);
			await followToEnd(paddock, id, context);
			if (context.signal.aborted && context.whenAbandoned() === "abort") await paddock.abort({ id });
			context.signal.throwIfAborted();
			return onlyParts(await resultOf(paddock, id), include);
		},
	});
}
