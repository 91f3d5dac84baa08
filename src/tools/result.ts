import { UsageError } from "../errors.ts";
import { unknownResult } from "../export/result.ts";
import type { RolloutResult } from "../model/result.ts";
import type { Paddock } from "../paddock.ts";

/** The result as tools hand it out; of an unknown id the same shape, whose `error` says so. */
export async function resultOf(paddock: Paddock, id: string): Promise<RolloutResult> {
	const result = await paddock.result(id);
	return result === null ? unknownResult(id) : { ...result, task_id: asGiven(result.task_id) };
}

/** A caller who named no task is told none: what it is called here was made from the instruction. */
export function asGiven(taskId: string): string {
	return /^inline-[0-9a-f]{12}$/.test(taskId) ? "" : taskId;
}

export function unknownRollout(id: string): UsageError {
	return new UsageError(
		`rollout_id ${JSON.stringify(id.slice(0, 120))} is not known here; start_rollout and run_rollout return it`,
		"not_found",
	);
}

/** The unmodified OpenEnv client refuses messages of more than 100 MiB; the envelope needs some of it. */
const MAX_TEXT_BYTES = 95 * 1024 * 1024;

/** A tool's answer as JSON text, or a clear refusal when no client could take it. */
export function toText(output: Record<string, unknown>, maxBytes = MAX_TEXT_BYTES): string {
	const text = JSON.stringify(output);
	const sizeBytes = Buffer.byteLength(text);
	if (sizeBytes <= maxBytes) return text;
	throw new UsageError(
		`the answer has ${sizeBytes} bytes, more than a client accepts; fetch it from /api/v1/rollouts/${String(output.rollout_id)}/result, or its parts from /calls and /samples beside it`,
		"result_too_large",
	);
}
