import { UsageError } from "../errors.ts";
import type { RolloutResult } from "../model/result.ts";
import type { Paddock } from "../paddock.ts";

/** The engines' own sentinel for "no logprob"; clients refuse null, and JSON knows no infinity. */
const NO_LOGPROB = -9999;

/** The result in a form every client accepts: no number that JSON would turn into null. */
export async function resultOf(paddock: Paddock, id: string): Promise<RolloutResult> {
	const result = await paddock.result(id);
	if (result === null) throw unknownRollout(id);
	return {
		...result,
		reward: result.reward !== null && Number.isFinite(result.reward) ? result.reward : null,
		proxy_turns: result.proxy_turns.map((turn) =>
			turn.per_token_logps.every(Number.isFinite)
				? turn
				: {
						...turn,
						per_token_logps: turn.per_token_logps.map((logprob) =>
							Number.isFinite(logprob) ? logprob : NO_LOGPROB,
						),
					},
		),
	};
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
export function toText(output: Record<string, unknown>): string {
	const text = JSON.stringify(output);
	const sizeBytes = Buffer.byteLength(text);
	if (sizeBytes <= MAX_TEXT_BYTES) return text;
	throw new UsageError(
		`the answer has ${sizeBytes} bytes, more than a client accepts; fetch it from /api/v1/rollouts/${String(output.rollout_id)}/result, or its parts from /calls and /samples beside it`,
		"result_too_large",
	);
}
