import { FIRST_CALL, type ModelCall, type Purpose } from "../model/call.ts";
import { type Intervention, isSteering } from "../model/intervention.ts";
import type { Rollout } from "../model/rollout.ts";
import type { Break, Certificate, InterventionHandling } from "../model/sample.ts";
import { type Fault, faultsOf, samplingOf } from "./faults.ts";

/** What the rollout's own record says of its calls. */
export interface Expected {
	calls?: number;
	/** Why no sample may be made, whatever the tokens look like. */
	untrainable?: string | null;
	interventions?: readonly Intervention[];
}

export function expectedOf(rollout: Pick<Rollout, "calls" | "summary">): Expected {
	const { untrainable = null, interventions = [] } = rollout.summary ?? {};
	return { calls: rollout.calls, untrainable, interventions };
}

/** What came of the calls: see Certificate. */
export interface Found {
	samples: number;
	trainedTokens: number;
	mainTokens: number;
	wentOn: number;
	tokensToTrainOver: number;
}

const FULL_BREAKS = 100;
const MAX_NOTED = 20;

/** Sees every call once and keeps only counts: what it knows does not grow with the rollout. */
export class CertificateBuilder {
	readonly #purposes: ReadonlySet<Purpose>;
	readonly #expected: Expected;
	readonly #assumedMode: string | undefined;
	readonly #handling: InterventionHandling;
	readonly #calls = { main: 0, subagent: 0, title: 0, compaction: 0 };
	readonly #tokens = { captured: 0, billed: 0, sentinels: 0 };
	#incomplete = 0;
	readonly #superseded = new Set<number>();
	/** Cut-off calls with sampled tokens that no retry has replaced so far, by index. */
	readonly #cut = new Map<number, { lineage: string; passedBy: boolean }>();
	readonly #breaks: Break[] = [];
	readonly #breakCounts: Certificate["continuity"]["breaks"] = {};
	#stitched = 0;
	readonly #plain: Record<string, number> = {};
	readonly #engines = new Set<string>();
	readonly #models = new Set<string>();
	readonly #modes = new Set<string>();
	readonly #weights = new Set<string>();
	readonly #sampling = new Set<string>();
	readonly #attempts = new Set<number>();
	readonly #losses = new Set<string>();
	/** Faults of trained calls: how many calls have one, and the first in words. */
	readonly #faults = new Map<Fault["kind"], { count: number; first: string }>();

	constructor(
		purposes: ReadonlySet<Purpose>,
		options: {
			expected?: Expected | undefined;
			logprobsMode?: string | undefined;
			interventions?: InterventionHandling;
		},
	) {
		this.#handling = options.interventions ?? "keep";
		this.#purposes = purposes;
		this.#expected = options.expected ?? {};
		this.#assumedMode = options.logprobsMode;
	}

	add(call: ModelCall): void {
		this.#calls[call.purpose]++;
		this.#tokens.captured += call.completionIds.length;
		this.#tokens.billed += call.usage?.completionTokens ?? 0;
		this.#attempts.add(call.attempt);
		if (!call.complete) this.#incomplete++;
		if (call.superseded) this.#superseded.add(call.index);
		if (call.retryOf !== null) {
			this.#superseded.add(call.retryOf);
			this.#cut.delete(call.retryOf);
		}
		if (!this.#purposes.has(call.purpose)) return;
		this.#passBy(call);
		if (call.superseded || !call.complete) this.#noteCut(call);
		else this.#check(call);
	}

	broke(broken: Break): void {
		this.#breakCounts[broken.reason] = (this.#breakCounts[broken.reason] ?? 0) + 1;
		if (this.#breaks.length < FULL_BREAKS) this.#breaks.push(broken);
	}

	finish(found: Found): Certificate {
		const { samples, trainedTokens, mainTokens, wentOn, tokensToTrainOver } = found;
		const reasons = this.#reasons(trainedTokens);
		const interventions = countInterventions(this.#expected.interventions ?? [], this.#handling);
		return {
			version: 1,
			trainable: reasons.length === 0,
			reasons,
			notes: [...shareNote(mainTokens, trainedTokens), ...this.#notes(), ...interventionNote(interventions)],
			calls: { ...this.#calls },
			completeness: {
				capturedTokens: this.#tokens.captured,
				billedTokens: this.#tokens.billed,
				incompleteCalls: this.#incomplete,
				supersededCalls: this.#superseded.size,
			},
			lengthsEqual: !(["ids", "logprobs", "usage"] as const).some((kind) => this.#faults.has(kind)),
			sentinels: this.#tokens.sentinels,
			continuity: {
				samples,
				breaks: this.#breakCounts,
				firstBreaks: this.#breaks,
				wentOn,
				stitched: this.#stitched,
				plain: this.#plain,
			},
			trainedTokens,
			tokensToTrainOver,
			...(interventions === null ? {} : { interventions }),
			mainShare: trainedTokens === 0 ? 0 : mainTokens / trainedTokens,
			engines: [...this.#engines],
			models: [...this.#models],
			logprobsModes: [...this.#modes],
			weightVersions: [...this.#weights],
			sampling: [...this.#sampling].map((json) => JSON.parse(json)),
		};
	}

	#noteContinuity({ continuity }: ModelCall): void {
		if (continuity === undefined) return;
		if (continuity.stitched) this.#stitched++;
		else if (continuity.why !== FIRST_CALL)
			this.#plain[continuity.why] = (this.#plain[continuity.why] ?? 0) + 1;
	}

	#check(call: ModelCall): void {
		this.#noteContinuity(call);
		const mode = call.logprobsMode ?? this.#assumedMode;
		for (const { kind, sentence } of faultsOf(call, mode)) {
			const known = this.#faults.get(kind);
			if (known) known.count++;
			else this.#faults.set(kind, { count: 1, first: `call ${call.index}: ${sentence}` });
		}
		this.#tokens.sentinels += call.invalidTokens.length;
		if (call.engine !== null) this.#engines.add(call.engine);
		if (call.model !== null) this.#models.add(call.model);
		if (mode !== undefined) this.#modes.add(mode);
		for (const version of call.weightVersions ?? []) this.#weights.add(version);
		const room = (set: Set<string>) => set.size < MAX_NOTED;
		if (room(this.#sampling)) this.#sampling.add(JSON.stringify(samplingOf(call)));
		for (const loss of call.losses) if (room(this.#losses)) this.#losses.add(loss);
	}

	/** Tokens of a call that never reached the agent are left out. A retry explains them; going on without one does not. */
	#noteCut(call: ModelCall): void {
		if (this.#superseded.has(call.index) || call.completionIds.length === 0) return;
		this.#cut.set(call.index, { lineage: lineageOf(call), passedBy: false });
	}

	#passBy(call: ModelCall): void {
		for (const cut of this.#cut.values()) if (cut.lineage === lineageOf(call)) cut.passedBy = true;
	}

	#reasons(trainedTokens: number): string[] {
		const { calls, untrainable } = this.#expected;
		const captured = Object.values(this.#calls).reduce((sum, count) => sum + count);
		const reasons = [...this.#faults.values()].map(({ count, first }) =>
			count === 1 ? first : `${first} (and so for ${count - 1} more)`,
		);
		if (untrainable) reasons.unshift(untrainable);
		if (captured === 0) reasons.push("no call was captured");
		else if (trainedTokens === 0) reasons.push("no call brought a token to train on");
		if (calls !== undefined && captured < calls)
			reasons.push(`the log holds ${captured} of the rollout's ${calls} calls`);
		for (const [index, { passedBy }] of this.#cut) {
			if (passedBy) reasons.push(`call ${index} was cut off, and the agent went on without repeating it`);
		}
		const several = (what: string, set: Set<unknown>) => {
			if (set.size > 1)
				reasons.push(`the trained calls came from ${set.size} ${what}: ${[...set].join(", ")}`);
		};
		several("engines", this.#engines);
		several("models", this.#models);
		several("logprobs modes", this.#modes);
		if (this.#attempts.size > 1) reasons.push("the log mixes calls of several attempts");
		return reasons;
	}

	#notes(): string[] {
		const notes: string[] = [];
		for (const [index, { passedBy }] of this.#cut) {
			if (!passedBy) notes.push(`call ${index} was cut off at the end; its tokens are left out`);
		}
		for (const [reason, count] of Object.entries(this.#breakCounts)) {
			notes.push(`${count} ${count === 1 ? "branch begins" : "branches begin"} with a break: ${reason}`);
		}
		if (this.#weights.size > 1)
			notes.push(`the weights changed on the way: ${[...this.#weights].join(", ")}`);
		if (this.#engines.size === 0) notes.push("the engine did not say its name");
		return [...notes, ...[...this.#losses].map((loss) => `lost on the way: ${loss}`)];
	}
}

type Interventions = NonNullable<Certificate["interventions"]>;

function countInterventions(
	interventions: readonly Intervention[],
	handling: InterventionHandling,
): Interventions | null {
	if (interventions.length === 0) return null;
	const kinds: Record<string, number> = {};
	for (const { kind } of interventions) kinds[kind] = (kinds[kind] ?? 0) + 1;
	return { count: interventions.length, kinds, firstCall: steeredFrom(interventions), handling };
}

/** From which call on a person had a hand in it. */
export function steeredFrom(interventions: readonly Intervention[]): number | null {
	return interventions.find(isSteering)?.call ?? null;
}

function interventionNote(interventions: Interventions | null): string[] {
	if (interventions === null) return [];
	const { count, kinds, firstCall, handling } = interventions;
	const what = Object.entries(kinds).map(([kind, times]) => `${kind}: ${times}`);
	const times = count === 1 ? "once" : `${count} times`;
	const done = { keep: "trained on", mask: "context only", drop: "left out" }[handling];
	const after = firstCall === null ? "" : `; calls from ${firstCall} on came after it and are ${done}`;
	return [`people intervened ${times} (${what.join(", ")})${after}`];
}

/** Whoever trains on one sample of a rollout should know what is lost. */
function shareNote(mainTokens: number, trainedTokens: number): string[] {
	if (mainTokens === trainedTokens) return [];
	return [`the main sample has ${mainTokens} of the ${trainedTokens} tokens that can be trained on`];
}

function lineageOf(call: ModelCall): string {
	return `${call.purpose} ${call.sessionId}`;
}
