import type { Continuity, ModelCall } from "../model/call.ts";
import type { LogprobsMode } from "../model/endpoint.ts";
import type { Origin } from "./agent-side/purpose.ts";
import type { KnownDialect } from "./engines/dialect.ts";
import { DIALECTS } from "./engines/dialect.ts";
import type { EngineAnswer, JsonObject, Protocol } from "./protocols/protocol.ts";

/** A call while it happens. */
export interface CallDraft {
	index: number;
	attempt: number;
	retryOf: number | null;
	origin: Origin;
	protocol: Protocol;
	dialect: KnownDialect;
	startedAt: number;
	firstByteMs: number | null;
	upstreamStatus: number | null;
	/** As last sent upstream. */
	body: JsonObject;
	patch: JsonObject;
	/** The engine was asked to answer piece by piece. */
	streams: boolean;
	answer: EngineAnswer | null;
	engine: string | null;
	logprobsMode: LogprobsMode | undefined;
	/** As the trainer said, at the start and at the end. */
	servedWeights: readonly (string | undefined)[];
	/** What was lost on the way here, besides what the answer notes. */
	losses: string[];
	/** Flags for tokens were sent; their absence is a loss. */
	captures: boolean;
	/** How the prompt came about; absent where nothing is stitched. */
	continuity?: Continuity | undefined;
}

export interface CallEnding {
	complete: boolean;
	error: { code: string; message: string } | null;
}

export function toModelCall(draft: CallDraft, ending: CallEnding, now: number): ModelCall {
	const { answer, origin } = draft;
	const tokens = answer?.tokens;
	tokens?.settle();
	const hasSampled = answer !== null && (answer.pieces > 0 || (tokens?.ids.length ?? 0) > 0);
	return {
		index: draft.index,
		attempt: draft.attempt,
		retryOf: draft.retryOf,
		superseded: false,
		...origin,
		protocol: draft.protocol.name,
		dialect: draft.dialect,
		engine: answer?.engine ?? draft.engine,
		logprobsMode: draft.logprobsMode,
		...toWeights(draft),
		model: answer?.model ?? null,
		startedAt: draft.startedAt,
		firstByteMs: draft.firstByteMs,
		lastByteMs: now - draft.startedAt,
		request: { ...draft.protocol.split(draft.body), patch: draft.patch },
		response: {
			message: hasSampled || ending.complete ? (answer?.message ?? null) : null,
			finishReason: answer?.finishReason ?? null,
		},
		usage: answer?.usage ?? null,
		promptIds: tokens?.promptIds ?? [],
		completionIds: tokens?.ids ?? [],
		completionTexts: tokens?.texts ?? [],
		logprobs: tokens?.logprobs ?? [],
		...(tokens?.alternatives.some((list) => list.length > 0) ? { alternatives: tokens.alternatives } : {}),
		invalidTokens: tokens?.invalid ?? [],
		complete: ending.complete,
		upstreamStatus: draft.upstreamStatus,
		error: ending.error,
		continuity: draft.continuity,
		...(answer?.contradictions?.size ? { contradictions: [...answer.contradictions] } : {}),
		losses: [...draft.losses, ...(answer?.losses ?? []), ...(ending.complete ? tokenLosses(draft) : [])],
	};
}

/** The engine knows best; then whoever trains it. */
function toWeights({ answer, servedWeights }: CallDraft): Pick<ModelCall, "weightVersions"> {
	const said = answer?.weightVersions?.length ? answer.weightVersions : servedWeights;
	const versions = [...new Set(said.filter((version) => version !== undefined))];
	return versions.length === 0 ? {} : { weightVersions: versions };
}

/** What the dialect promises and this call did not bring. */
function tokenLosses({ answer, dialect, protocol, captures }: CallDraft): string[] {
	if (!captures || !answer) return [];
	const { ids, logprobs, promptIds } = answer.tokens;
	if (!protocol.carriesTokens) return ["no token ids over this protocol"];
	const losses: string[] = [];
	const sampled = Math.max(answer.usage?.completionTokens ?? 0, answer.pieces);
	if (sampled === 0) return losses;
	if (DIALECTS[dialect].ids && ids.length === 0) losses.push("token ids missing");
	if (DIALECTS[dialect].ids && promptIds.length === 0) losses.push("prompt token ids missing");
	if (DIALECTS[dialect].logprobs && logprobs.length === 0) losses.push("logprobs missing");
	if (ids.length > 0 && answer.usage && ids.length !== answer.usage.completionTokens)
		losses.push(`${ids.length} token ids for ${answer.usage.completionTokens} billed`);
	return losses;
}
