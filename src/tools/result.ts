import { z } from "zod";
import { UsageError } from "../errors.ts";
import { unknownResult } from "../export/result.ts";
import type { RolloutResult } from "../model/result.ts";
import type { Paddock } from "../paddock.ts";

/** What a result can do without, when its reader is a model whose context it would flood. */
export const Include = z
	.array(z.enum(["turns", "files", "commands", "logs"]))
	.max(4)
	.nullish()
	.describe(
		"Only these parts of the result: turns (tokens), files, commands (setup and verify), logs; the others stay empty. [] for the bare verdict; absent: everything",
	);

export function onlyParts(result: RolloutResult, include: z.infer<typeof Include>): RolloutResult {
	if (include === undefined || include === null) return result;
	const without = (part: (typeof include)[number]) => !include.includes(part);
	return {
		...result,
		...(without("turns") && { proxy_turns: [] }),
		...(without("files") && { files: {}, workdir_files: {}, files_extra: [] }),
		...(without("commands") && { setup_results: [], verify_results: [] }),
		...(without("logs") && {
			...{ verifier_stdout: "", verifier_stderr: "" },
			...{ agent_log_tail: "", proxy_log_tail: "", install_log_tail: "" },
		}),
	};
}

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
