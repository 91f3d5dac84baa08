import type { LogprobsMode } from "../../model/endpoint.ts";
import { SAMPLING_FIELDS, SAMPLING_NAMES } from "../../model/sampling.ts";
import { isObject, type JsonObject, toArray } from "../protocols/protocol.ts";
import { ask, type Questioner, toQuestion } from "./ask.ts";

/** Two tokens must differ by this much for their difference to be told from noise. */
const CLEAR_NATS = 0.2;
const ALTERNATIVES = 5;

const NEUTRAL: JsonObject = Object.fromEntries(
	SAMPLING_NAMES.map((name) => [name, SAMPLING_FIELDS[name].neutral]),
);

/**
 * What the engine's logprobs are of, told by its answers to one prompt: halving the temperature doubles the distance between two
 * tokens if the logprobs come after it, and a single candidate has logprob 0 if they come after the cut-offs. Null: it does not show.
 */
export async function findLogprobsMode(questioner: Questioner): Promise<LogprobsMode | null> {
	const cold = await firstLogprobs(questioner, { temperature: 0.5 });
	const plain = await firstLogprobs(questioner, {});
	const stretch = stretchOf(plain, cold);
	if (stretch === null) return null;
	if (Math.abs(stretch - 1) < 0.2) return "raw_logprobs";
	if (Math.abs(stretch - 2) > 0.4) return null;
	const only = await firstLogprobs(questioner, { top_k: 1 });
	const best = Math.max(...plain.values());
	const isCertain = Math.max(...only.values()) > -1e-3 && best < -CLEAR_NATS / 10;
	return isCertain ? "processed_logprobs" : "scaled_logprobs";
}

/** How much farther apart the two most distant tokens that both answers know are in the second. */
function stretchOf(one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): number | null {
	const common = [...one.keys()]
		.filter((token) => other.has(token))
		.sort((a, b) => one.get(a)! - one.get(b)!);
	const [least, most] = [common[0], common.at(-1)];
	if (least === undefined || most === undefined) return null;
	const distance = one.get(most)! - one.get(least)!;
	return distance < CLEAR_NATS ? null : (other.get(most)! - other.get(least)!) / distance;
}

/** Of the first token and its alternatives. A sentinel is none. */
async function firstLogprobs(questioner: Questioner, sampling: JsonObject): Promise<Map<string, number>> {
	const flags = { logprobs: true, top_logprobs: ALTERNATIVES };
	const reply = await ask(questioner, { ...toQuestion({}), ...NEUTRAL, ...sampling, ...flags });
	if ("fault" in reply) return new Map();
	const choice = toArray(reply.answer?.choices)[0];
	const logprobs = isObject(choice) && isObject(choice.logprobs) ? choice.logprobs : {};
	const first = toArray(logprobs.content)[0];
	if (!isObject(first)) return new Map();
	const entries = [first, ...toArray(first.top_logprobs)].filter(isObject);
	return new Map(
		entries.flatMap(({ token, logprob }) =>
			typeof token === "string" && typeof logprob === "number" && logprob > -1000 ? [[token, logprob]] : [],
		),
	);
}
