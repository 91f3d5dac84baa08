import type { RolloutRow } from "../model/rollout.ts";
import type { Paddock } from "../paddock.ts";
import type { RolloutArguments } from "./arguments.ts";
import { toRolloutRequest } from "./request.ts";
import type { ToolContext } from "./tools.ts";

/** How the tools that start something start it. */
export async function submit(
	paddock: Paddock,
	given: RolloutArguments,
	door: ToolContext["door"],
): Promise<RolloutRow> {
	const { env, sandbox } = paddock.config;
	const { request, idempotencyKey } = toRolloutRequest(given, { env, sandbox, door });
	const { rollouts } = await paddock.submit(request, { idempotencyKey });
	return rollouts[0]!;
}
