import type { Sampling } from "./request.ts";

/** One request field that decides which token is drawn: where a rollout asks for it, and what leaves the model alone. */
interface SamplingField {
	key: keyof Sampling;
	neutral: number;
	/** Other spellings of the same. */
	alsoNeutral?: number;
}

/**
 * By the name on the wire. An engine fills in what a request leaves out from its model's own files, and then samples from
 * another distribution than its logprobs say: what is to be trained on says all of these.
 */
export const SAMPLING_FIELDS = {
	temperature: { key: "temperature", neutral: 1 },
	top_p: { key: "topP", neutral: 1 },
	top_k: { key: "topK", neutral: -1, alsoNeutral: 0 },
	min_p: { key: "minP", neutral: 0 },
	presence_penalty: { key: "presencePenalty", neutral: 0 },
	frequency_penalty: { key: "frequencyPenalty", neutral: 0 },
	repetition_penalty: { key: "repetitionPenalty", neutral: 1 },
} as const satisfies Record<string, SamplingField>;

export type SamplingName = keyof typeof SAMPLING_FIELDS;

export const SAMPLING_NAMES = Object.keys(SAMPLING_FIELDS) as SamplingName[];

/** Nothing was asked for that would make the engine sample from another distribution than the model's own. */
export function isNeutralSampling(sampling: Sampling): boolean {
	return SAMPLING_NAMES.every((name) => {
		const wish = sampling[SAMPLING_FIELDS[name].key];
		return wish === undefined || isNeutral(name, wish);
	});
}

export function isNeutral(name: SamplingName, value: unknown): boolean {
	const field: SamplingField = SAMPLING_FIELDS[name];
	return value === field.neutral || value === (field.alsoNeutral ?? field.neutral);
}

/** The same fields with values that every engine takes which knows them. */
export function neutralised(sampling: Sampling): Sampling {
	const asked = SAMPLING_NAMES.map((name) => SAMPLING_FIELDS[name]).filter(
		({ key }) => sampling[key] !== undefined,
	);
	return { ...sampling, ...Object.fromEntries(asked.map(({ key, neutral }) => [key, neutral])) };
}
