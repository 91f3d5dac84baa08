import type { LogprobsMode } from "../../model/endpoint.ts";
import { SAMPLING_NAMES } from "../../model/sampling.ts";
import type { JsonObject } from "../protocols/protocol.ts";
import type { UpstreamFault } from "../upstream/fault.ts";
import type { KnownDialect } from "./dialect.ts";

/** What the gateway has learnt of one endpoint, by asking it itself; shared by all rollouts that use it. */
export interface Engine {
	dialect: KnownDialect;
	/** It could not be asked: the dialect is a guess. */
	isGuess: boolean;
	/** As the endpoint calls itself. */
	name: string | null;
	/** Fields it refused; they are not sent. */
	refused: Set<string>;
	wantsMaxCompletionTokens: boolean;
	/** What its logprobs are of, once somebody needed to know; null when its answers do not show it. */
	logprobsMode?: Promise<LogprobsMode | null>;
	/** How often it did not use a prompt that it was sent as ids, or refused it. */
	dishonoured: number;
	/** Questions that taught nothing; they are not asked again. */
	vain: Set<string>;
}

/** So often may an engine leave aside a prompt that it was sent as ids; then it gets none any more. */
export const MAX_DISHONOURED = 2;

/** Fields of ours that an engine may do without. */
const DROPPABLE: ReadonlySet<string> = new Set([
	"logprobs",
	"top_logprobs",
	"return_token_ids",
	"return_meta_info",
	"include_reasoning",
	"stream_options",
	"chat_template_kwargs",
	"seed",
	...SAMPLING_NAMES,
]);

/** Whether the refusal names something that an engine may do without: then it is worth asking about. */
export function isTelling(fault: UpstreamFault, body: JsonObject): boolean {
	if (fault.code !== "provider_rejected") return false;
	return namedIn(fault.message, body).length > 0 || wantsCompletionTokens(fault, body);
}

/** A refusal of a request that was ours alone. True: asking without what it names is worth a try. */
export function learnFromRefusal(engine: Engine, fault: UpstreamFault, body: JsonObject): boolean {
	if (fault.code !== "provider_rejected") return false;
	if (!engine.wantsMaxCompletionTokens && wantsCompletionTokens(fault, body)) {
		engine.wantsMaxCompletionTokens = true;
		return true;
	}
	const refused = namedIn(fault.message, body);
	for (const field of refused) engine.refused.add(field);
	return refused.length > 0;
}

/** The request in the words that the engine is known to take. */
export function withoutRefused(body: JsonObject, engine: Engine): JsonObject {
	const kept = Object.fromEntries(Object.entries(body).filter(([field]) => !engine.refused.has(field)));
	if (!engine.wantsMaxCompletionTokens || !("max_tokens" in kept)) return kept;
	const { max_tokens: limit, ...rest } = kept;
	return { ...rest, max_completion_tokens: limit };
}

/** Whether the engine is known by now to want another request than this one. */
export function isOutdated(engine: Engine, body: JsonObject): boolean {
	return (
		Object.keys(body).some((field) => engine.refused.has(field)) ||
		(engine.wantsMaxCompletionTokens && "max_tokens" in body)
	);
}

export function toLosses(engine: Engine): string[] {
	return [...engine.refused].map((field) => `${field} refused`);
}

function namedIn(text: string, body: JsonObject): string[] {
	return Object.keys(body).filter((field) => DROPPABLE.has(field) && new RegExp(`\\b${field}\\b`).test(text));
}

function wantsCompletionTokens(fault: UpstreamFault, body: JsonObject): boolean {
	return "max_tokens" in body && /max_completion_tokens/.test(fault.message);
}
