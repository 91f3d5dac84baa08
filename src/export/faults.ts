import { isLogprob, type ModelCall } from "../model/call.ts";
import { isNeutral, SAMPLING_NAMES, type SamplingName } from "../model/sampling.ts";

/** What keeps a complete call from being trained on. */
export interface Fault {
	kind: "contradiction" | "ids" | "logprobs" | "usage" | "sentinels" | "sampling" | "constraint" | "mode";
	sentence: string;
}

/** Further fields worth showing with a sample. */
const OTHER_SAMPLING = ["seed", "max_tokens", "max_completion_tokens"];

/** Fields under which an engine draws from fewer tokens than the model offers: no trainer knows which. */
const CONSTRAINTS = [
	"logit_bias",
	"bad_words",
	"allowed_token_ids",
	"min_tokens",
	"structured_outputs",
	"guided_json",
	"guided_regex",
	"guided_choice",
	"guided_grammar",
	"regex",
	"ebnf",
	"json_schema",
];

export function samplingOf(call: ModelCall): Record<string, unknown> {
	const { params } = call.request;
	const names = [...SAMPLING_NAMES, ...OTHER_SAMPLING];
	return Object.fromEntries(names.flatMap((name) => (isSet(params[name]) ? [[name, params[name]]] : [])));
}

export function faultsOf(call: ModelCall, logprobsMode: string | undefined): Fault[] {
	const sampled = call.completionIds.length > 0 || (call.usage?.completionTokens ?? 1) > 0;
	if (!sampled && !hasSpoken(call)) return [];
	const faults: Fault[] = [];
	const fault = (kind: Fault["kind"], sentence: string | null) => sentence && faults.push({ kind, sentence });
	fault("contradiction", call.contradictions?.[0] ?? null);
	fault("ids", idsFault(call));
	fault("logprobs", logprobsFault(call));
	fault("usage", usageFault(call));
	fault("sentinels", sentinelFault(call));
	fault("sampling", samplingFault(call));
	fault("constraint", constraintFault(call));
	fault("mode", modeFault(call, logprobsMode));
	return faults;
}

/** Words that an engine billed nothing for are sampled all the same: the agent has acted on them. */
function hasSpoken({ response: { message } }: ModelCall): boolean {
	const { role: _, ...said } = message ?? {};
	return Object.values(said).some((value) => (Array.isArray(value) ? value.length > 0 : Boolean(value)));
}

function idsFault(call: ModelCall): string | null {
	if (call.completionIds.length === 0) return `the engine handed out no token ids (${call.dialect})`;
	if (call.promptIds.length === 0) return "the engine handed out no prompt token ids";
	const isForeign = (id: number) => id < 0;
	if (!call.promptIds.some(isForeign) && !call.completionIds.some(isForeign)) return null;
	return "a token id is not a number of the vocabulary";
}

function logprobsFault({ completionIds, logprobs }: ModelCall): string | null {
	if (logprobs.length === completionIds.length) return null;
	return logprobs.length === 0
		? "the engine handed out no logprobs"
		: `${logprobs.length} logprobs for ${completionIds.length} tokens`;
}

function usageFault({ usage, promptIds, completionIds }: ModelCall): string | null {
	if (!usage) return "the engine reported no usage, so nothing shows that all tokens were captured";
	if (completionIds.length > 0 && usage.completionTokens !== completionIds.length)
		return `${completionIds.length} tokens captured, ${usage.completionTokens} billed`;
	if (promptIds.length > 0 && usage.promptTokens !== promptIds.length)
		return `${promptIds.length} prompt tokens captured, ${usage.promptTokens} billed`;
	return null;
}

function sentinelFault({ logprobs, invalidTokens }: ModelCall): string | null {
	const wrong = new Set(invalidTokens);
	logprobs.forEach((logprob, position) => {
		if (!isLogprob(logprob)) wrong.add(position);
	});
	if (wrong.size === 0) return null;
	const first = [...wrong].reduce((least, position) => Math.min(least, position));
	return `${wrong.size} of ${logprobs.length} tokens have no true logprob (first at ${first})`;
}

/** What a request does not say, the engine takes from its model's files; then nobody knows what was sampled from. */
function samplingFault({ request: { params } }: ModelCall): string | null {
	const left = SAMPLING_NAMES.filter((name) => !isSet(params[name]));
	if (left.length > 0) return `${left.join(", ")} left to the engine, which may have sampled otherwise`;
	if (params.temperature === 0)
		return "sampled greedily (temperature 0), which is no distribution to train on";
	return null;
}

function constraintFault({ request: { params } }: ModelCall): string | null {
	const { tool_choice: choice, response_format: format } = params;
	const used = CONSTRAINTS.filter((name) => isSet(params[name]));
	if (isSet(choice) && choice !== "auto" && choice !== "none") used.push("tool_choice");
	if (isSet(format) && (format as { type?: unknown }).type !== "text") used.push("response_format");
	return used.length === 0 ? null : `${used.join(", ")} kept the engine from some tokens`;
}

/** Raw logprobs are from before temperature and cut-offs: with those in use they are not what was sampled from. */
function modeFault(call: ModelCall, mode: string | undefined): string | null {
	if (mode === "processed_logprobs") return null;
	const { params } = call.request;
	const isTold = (name: SamplingName) => mode === "scaled_logprobs" && name === "temperature";
	const used = SAMPLING_NAMES.filter(
		(name) => isSet(params[name]) && !isNeutral(name, params[name]) && !isTold(name),
	);
	if (used.length === 0) return null;
	const sampledWith = used.map((name) => `${name} ${params[name]}`).join(", ");
	return `sampled with ${sampledWith}, but its logprobs are ${mode ?? "of an unknown mode"}; training needs processed_logprobs (start the engine so, and say so with logprobs_mode)`;
}

function isSet(value: unknown): boolean {
	return value !== undefined && value !== null;
}
