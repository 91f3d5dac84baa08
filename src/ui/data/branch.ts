import type { ModelCall } from "../../model/call.ts";
import type { Break, Certificate, Sample } from "../../model/sample.ts";
import { showCall, showCount } from "./figures.ts";
import type { Spelling, Token } from "./tokens.ts";

/** More points than a plot has pixels tell nothing. */
const POINTS = 600;
const AROUND = 6;

interface Course {
	x: number[];
	series: { label: string; values: (number | null)[] }[];
}

/** Surprise along the branch, and entropy where the alternatives tell it; of long ones the mean of each stretch. */
export function surpriseOf(tokens: readonly Token[]): Course {
	const sampled = tokens.filter((token) => token.logprob !== null);
	const width = Math.max(1, Math.ceil(sampled.length / POINTS));
	const stretches = Array.from({ length: Math.ceil(sampled.length / width) }, (_, index) =>
		sampled.slice(index * width, (index + 1) * width),
	);
	const entropies = stretches.map((some) => mean(some.flatMap((token) => entropyOf(token) ?? [])));
	return {
		x: stretches.map((some) => some[0]!.position),
		series: [
			{ label: "−logprob", values: stretches.map((some) => mean(some.map((token) => -token.logprob!))) },
			...(entropies.some((value) => value !== null)
				? [{ label: "entropy (at least)", values: entropies }]
				: []),
		],
	};
}

/** Of the alternatives that the engine named: what it left out can only add to it. */
function entropyOf({ alternatives }: Token): number | null {
	if (alternatives === undefined || alternatives.length === 0) return null;
	return alternatives.reduce((sum, { logprob }) => sum - Math.exp(logprob) * logprob, 0);
}

/** How long prompt and answer of each call are. */
export function lengthsOf(sample: Pick<Sample, "calls">, calls: ReadonlyMap<number, ModelCall>): Course {
	const own = sample.calls.flatMap((index) => calls.get(index) ?? []);
	return {
		x: own.map((call) => call.index + 1),
		series: [
			{ label: "prompt", values: own.map((call) => call.promptIds.length) },
			{ label: "sampled", values: own.map((call) => call.completionIds.length) },
		],
	};
}

interface Side {
	position: number;
	id: number | null;
	text: string;
}

export interface Difference {
	/** Of the first column. */
	position: number;
	before: Side[];
	after: Side[];
}

/** The tokens on both sides of a break, from a little before the first one that differs. */
export function differenceAt(
	{ position, call, previousCall }: Break,
	calls: ReadonlyMap<number, ModelCall>,
	spelling: Spelling,
): Difference {
	const previous = calls.get(previousCall);
	const was = previous === undefined ? [] : [...previous.promptIds, ...previous.completionIds];
	const is = calls.get(call)?.promptIds ?? [];
	const from = Math.max(0, position - AROUND);
	const cut = (ids: readonly number[]) =>
		Array.from({ length: 2 * AROUND }, (_, index) => {
			const id = ids[from + index] ?? null;
			return { position: from + index, id, text: id === null ? "" : (spelling.get(id) ?? `⟨${id}⟩`) };
		});
	return { position: from, before: cut(was), after: cut(is) };
}

/** What the certificate proves, as a person would say it. */
export function certificateWords(certificate: Certificate): string[] {
	const { continuity, completeness, engines, models, weightVersions, sampling, interventions } = certificate;
	const breaks = Object.entries(continuity.breaks).map(([reason, count]) => `${words(reason)} ${count}×`);
	const plain = Object.entries(continuity.plain).map(([why, count]) => `${why} (${count}×)`);
	return [
		`${showCount(certificate.trainedTokens)} tokens were sampled and may be trained on; each has the id and logprob that the engine gave.`,
		completeness.capturedTokens === completeness.billedTokens
			? `Every token that the engine billed was captured (${showCount(completeness.billedTokens)}).`
			: `${showCount(completeness.capturedTokens)} tokens were captured, ${showCount(completeness.billedTokens)} billed.`,
		continuity.samples === 1
			? "It is one unbroken chain of tokens: one sample."
			: `It is ${continuity.samples} samples; the largest of the main agent holds ${Math.round(certificate.mainShare * 100)} % of what can be trained on.`,
		...(breaks.length > 0 ? [`Prefixes broke: ${breaks.join(", ")}.`] : []),
		...(continuity.stitched > 0
			? [
					`${continuity.stitched} calls went on from the very tokens before them, put together by the gateway.`,
				]
			: []),
		...(plain.length > 0 ? [`Rendered anew by the engine: ${plain.join("; ")}.`] : []),
		...(completeness.incompleteCalls > 0 ? [`${completeness.incompleteCalls} calls did not end.`] : []),
		...(interventions === undefined
			? []
			: [
					`People stepped in ${interventions.count}×; from call ${interventions.firstCall === null ? "–" : showCall(interventions.firstCall)} on it was steered.`,
				]),
		`Sampled by ${models.join(", ") || "an unnamed model"} on ${engines.join(", ") || "an unknown engine"}${weightVersions.length > 0 ? `, weights ${weightVersions.join(", ")}` : ""}.`,
		...(sampling.length > 1 ? [`Sampling changed on the way: ${sampling.length} settings.`] : []),
	];
}

export function words(reason: string): string {
	return reason.replaceAll("_", " ");
}

function mean(values: readonly number[]): number | null {
	return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}
