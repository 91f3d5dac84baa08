import type { Endpoint } from "../model/endpoint.ts";
import type { Sampling } from "../model/request.ts";
import { SAMPLING_FIELDS, SAMPLING_NAMES } from "../model/sampling.ts";
import { DIALECTS, type KnownDialect } from "./engines/dialect.ts";
import { asksForUsage } from "./protocols/chat-request.ts";
import type { Hidden, JsonObject, Protocol } from "./protocols/protocol.ts";
import { RequestDraft } from "./request-draft.ts";

export interface PatchInput {
	protocol: Protocol;
	/** As admitted from the agent; left alone. */
	body: JsonObject;
	endpoint: Endpoint;
	/** What the agent may choose from, if it may. */
	models?: readonly string[] | undefined;
	sampling: Sampling;
	dialect: KnownDialect;
	/** Fields this endpoint refused before. */
	refused: ReadonlySet<string>;
	/** The model takes max_completion_tokens only. */
	wantsMaxCompletionTokens: boolean;
	/** False when nothing is kept: then no token flags are sent. */
	captures: boolean;
	/** What the budget gives to this call; null is no limit. */
	outputTokensLeft: number | null;
}

export interface Patched {
	body: JsonObject;
	/** What changed, by field; null means removed. Recorded on the call. */
	patch: JsonObject;
	hidden: Hidden;
	/** The agent asked for a stream; the engine may be asked differently. */
	agentStreams: boolean;
	engineStreams: boolean;
	/** max_tokens was lowered below the sampling cap by what is left of the budget. */
	clippedByBudget: boolean;
}

/** The one place where a request is changed on its way to the engine. */
export function patchRequest(input: PatchInput): Patched {
	const draft = new RequestDraft(input.body, input.refused);
	const agentStreams = input.body.stream === true;
	if (!isOffered(input)) draft.set("model", input.endpoint.model);
	setSampling(draft, input);
	const clippedByBudget = capTokens(draft, input);
	const wantsTokens = input.captures && input.protocol.carriesTokens;
	const engineStreams = agentStreams && (DIALECTS[input.dialect].streams || !wantsTokens);
	input.protocol.patch?.(draft, input, engineStreams);
	return {
		body: draft.body,
		patch: draft.patch,
		hidden: { usage: agentStreams && !asksForUsage(input.body) },
		agentStreams,
		engineStreams,
		clippedByBudget,
	};
}

function isOffered({ body, models = [] }: PatchInput): boolean {
	return typeof body.model === "string" && models.includes(body.model);
}

/** What is sampled is the rollout's to say: a field that an agent brings along counts for nothing. */
function setSampling(draft: RequestDraft, { sampling, protocol, dialect }: PatchInput): void {
	const said = protocol.carriesTokens ? DIALECTS[dialect].sampling : [];
	for (const name of SAMPLING_NAMES) {
		const { key, neutral } = SAMPLING_FIELDS[name];
		const wish = protocol.sampling.includes(name) ? sampling[key] : undefined;
		const value = wish ?? (said.includes(name) ? neutral : undefined);
		if (value === undefined) draft.remove(name);
		else draft.set(name, value);
	}
	if (sampling.seed === undefined || !protocol.takesSeed) draft.remove("seed");
	else draft.set("seed", sampling.seed);
}

/** True when the budget, not the sampling cap, set the limit. */
function capTokens(draft: RequestDraft, input: PatchInput): boolean {
	const { body, sampling, outputTokensLeft } = input;
	const field = input.protocol.lengthField(input);
	const capped = wantedTokens(body, sampling);
	const limit = outputTokensLeft === null ? capped : Math.min(capped, Math.max(1, outputTokensLeft));
	for (const name of ["max_tokens", "max_completion_tokens", "max_output_tokens"])
		if (name !== field) draft.remove(name);
	if (Number.isFinite(limit)) draft.set(field, limit);
	return limit < capped;
}

/** How long an answer may become: what the agent asks for, within the sampling cap. */
export function wantedTokens(body: JsonObject, { maxTokensCap }: Sampling): number {
	const asked = Number(body.max_tokens ?? body.max_completion_tokens ?? body.max_output_tokens ?? Number.NaN);
	const wanted = asked > 0 ? Math.ceil(asked) : Number.POSITIVE_INFINITY;
	return maxTokensCap > 0 ? Math.min(wanted, maxTokensCap) : wanted;
}
