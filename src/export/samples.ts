import type { ModelCall, Purpose } from "../model/call.ts";
import type { Break, Certificate, InterventionHandling, Sample } from "../model/sample.ts";
import { isMessage, type Lineage, nameOf, reasonFor, reasoningOf, toolCallsOf } from "./breaks.ts";
import { CertificateBuilder, type Expected, steeredFrom } from "./certificate.ts";

export interface SampleOptions {
	/** Whose tokens get mask 1. Title calls never do. */
	purposes?: Purpose[];
	/** The engine's mode, where a call does not say: raw_logprobs or processed_logprobs. */
	logprobsMode?: string;
	/** What becomes of calls after a person steered; they are kept unless said otherwise. */
	interventions?: InterventionHandling | undefined;
	/** What the rollout's own record says, to be compared with the log. */
	expected?: Expected;
}

/** How many branches are kept open at once; the one that rested longest is closed first. */
const LIVE_BRANCHES = 16;

/** Calls in, samples and the certificate out. For long rollouts see SampleBuilder. */
export async function toSamples(
	calls: AsyncIterable<ModelCall> | Iterable<ModelCall>,
	options: SampleOptions = {},
): Promise<{ samples: Sample[]; certificate: Certificate }> {
	const builder = new SampleBuilder(options);
	const samples: Sample[] = [];
	for await (const call of calls) samples.push(...builder.add(call));
	const rest = builder.finish();
	return { samples: [...samples, ...rest.samples], certificate: rest.certificate };
}

/**
 * Samples call by call, in memory bounded by the open branches. A call goes on with a branch if and only if its prompt
 * starts with all the branch's tokens; otherwise it begins a branch of its own, its whole prompt as context.
 */
export class SampleBuilder {
	readonly #purposes: Set<Purpose>;
	readonly #certificate: CertificateBuilder;
	readonly #handling: InterventionHandling;
	/** Calls from this index on came after a person steered. */
	readonly #steeredFrom: number;
	/** The one that rested longest comes first. */
	#branches: Branch[] = [];
	#samples = 0;
	#trainedTokens = 0;
	/** Of the main agent's sample that has most. */
	#mainTokens = 0;
	#wentOn = 0;
	#tokensToTrainOver = 0;

	constructor(options: SampleOptions = {}) {
		this.#purposes = new Set(options.purposes ?? ["main", "subagent"]);
		this.#purposes.delete("title");
		const { interventions: handling = "keep", expected, logprobsMode } = options;
		this.#certificate = new CertificateBuilder(this.#purposes, {
			interventions: handling,
			expected,
			logprobsMode,
		});
		this.#handling = handling;
		this.#steeredFrom = steeredFrom(expected?.interventions ?? []) ?? Number.POSITIVE_INFINITY;
	}

	/** Takes calls in the order in which they ended; returns the samples that are finished by now. */
	add(call: ModelCall): Sample[] {
		this.#certificate.add(call);
		if (call.purpose === "compaction") this.#noteCompaction(call.sessionId);
		if (!this.#purposes.has(call.purpose)) return [];
		// What was cut off, the agent never acted on: it is no part of any branch.
		if (!call.complete || call.superseded || call.promptIds.length === 0) return [];
		const isSteered = call.index >= this.#steeredFrom;
		if (isSteered && this.#handling === "drop") return [];
		const continued = this.#continued(call);
		if (continued) this.#wentOn++;
		const branch = continued ?? this.#begun(call);
		this.#trainedTokens += extend(branch, call, { isMasked: isSteered && this.#handling === "mask" });
		this.#branches = [...this.#branches.filter((other) => other !== branch), branch];
		return this.#branches.length > LIVE_BRANCHES ? this.#closed(this.#branches.shift()!) : [];
	}

	finish(): { samples: Sample[]; certificate: Certificate } {
		const samples = this.#branches.flatMap((branch) => this.#closed(branch));
		this.#branches = [];
		return {
			samples,
			certificate: this.#certificate.finish({
				samples: this.#samples,
				trainedTokens: this.#trainedTokens,
				mainTokens: this.#mainTokens,
				wentOn: this.#wentOn,
				tokensToTrainOver: this.#tokensToTrainOver,
			}),
		};
	}

	/** The longest branch that the prompt starts with. */
	#continued(call: ModelCall): Branch | null {
		const fitting = this.#branches.filter(
			(branch) =>
				branch.sample.ids.length <= call.promptIds.length &&
				commonPrefix(branch.sample.ids, call.promptIds) === branch.sample.ids.length,
		);
		return fitting.reduce<Branch | null>(
			(longest, branch) =>
				longest && longest.sample.ids.length >= branch.sample.ids.length ? longest : branch,
			null,
		);
	}

	#begun(call: ModelCall): Branch {
		const startedBy = this.#breakBefore(call);
		if (startedBy) this.#certificate.broke(startedBy);
		return {
			sample: {
				index: 0,
				purpose: call.purpose,
				sessionId: call.sessionId,
				parentSessionId: call.parentSessionId,
				agentName: call.agentName,
				calls: [],
				promptLength: call.promptIds.length,
				ids: [],
				mask: [],
				logprobs: [],
				finishReason: null,
				weightVersions: [],
				startedBy,
			},
			lineage: { messages: [], tools: [], reply: null, promptLength: 0, spans: [], compacted: false },
		};
	}

	/** The same session spoke before, yet this call does not go on from there: since which token, and why? */
	#breakBefore(call: ModelCall): Break | null {
		const previous = this.#branches.findLast(
			({ sample }) => sample.sessionId === call.sessionId && sample.purpose === call.purpose,
		);
		if (!previous) return null;
		const position = commonPrefix(previous.sample.ids, call.promptIds);
		return {
			reason: reasonFor(call, previous.lineage, position),
			position,
			call: call.index,
			previousCall: previous.sample.calls.at(-1)!,
		};
	}

	#noteCompaction(sessionId: string | null): void {
		for (const { sample, lineage } of this.#branches) {
			if (sample.sessionId === sessionId) lineage.compacted = true;
		}
	}

	/** A path without any token to train on is no sample. */
	#closed({ sample }: Branch): Sample[] {
		const tokens = sample.mask.reduce<number>((sum, mask) => sum + mask, 0);
		if (tokens === 0) return [];
		this.#tokensToTrainOver += sample.ids.length;
		if (sample.purpose === "main") this.#mainTokens = Math.max(this.#mainTokens, tokens);
		return [{ ...sample, index: this.#samples++ }];
	}
}

interface Branch {
	sample: Sample;
	lineage: Lineage;
}

/** Appends what is new of the prompt as context, then what the engine sampled; says how many tokens got mask 1. */
function extend({ sample, lineage }: Branch, call: ModelCall, { isMasked }: { isMasked: boolean }): number {
	for (const id of call.promptIds.slice(sample.ids.length)) append(sample, id, 0, 0);
	const start = sample.ids.length;
	const invalid = new Set(call.invalidTokens);
	let trained = 0;
	call.completionIds.forEach((id, position) => {
		const logprob = isMasked || invalid.has(position) ? null : logprobAt(call, position);
		append(sample, id, logprob === null ? 0 : 1, logprob ?? 0);
		if (logprob !== null) trained++;
	});
	sample.calls.push(call.index);
	sample.finishReason = call.response.finishReason;
	for (const version of call.weightVersions ?? [])
		if (!sample.weightVersions.includes(version)) sample.weightVersions.push(version);
	lineage.messages = call.request.messages;
	lineage.tools = call.request.tools;
	lineage.reply = call.response.message;
	lineage.promptLength = call.promptIds.length;
	lineage.compacted = false;
	lineage.spans.push({
		start,
		end: sample.ids.length,
		reasoningEnd: start + reasoningTokens(call),
		toolCallsStart: start + tokensBeforeToolCalls(call),
	});
	return trained;
}

function append(sample: Sample, id: number, mask: 0 | 1, logprob: number): void {
	sample.ids.push(id);
	sample.mask.push(mask);
	sample.logprobs.push(logprob);
}

/** Null where there is no logprob one could train on. */
function logprobAt(call: ModelCall, position: number): number | null {
	if (call.logprobs.length !== call.completionIds.length) return null;
	const logprob = call.logprobs[position]!;
	return Number.isFinite(logprob) ? logprob : null;
}

/** How many of the sampled tokens spell the reasoning, with the marks around it. */
function reasoningTokens(call: ModelCall): number {
	const reasoning = isMessage(call.response.message) ? reasoningOf(call.response.message) : "";
	if (reasoning === "") return 0;
	let characters = 0;
	const after = call.completionTexts.findIndex((text) => {
		characters += text.length;
		return characters > reasoning.length;
	});
	return after < 0 ? call.completionIds.length : after + 1;
}

/** How many of the sampled tokens come before the name of the first tool that is called. */
function tokensBeforeToolCalls(call: ModelCall): number {
	const [first] = toolCallsOf(call.response.message);
	if (!first || call.completionTexts.length === 0) return 0;
	const { content } = call.response.message as { content?: unknown };
	const said = typeof content === "string" ? content.length : 0;
	const at = call.completionTexts.join("").indexOf(nameOf(first), said);
	let characters = 0;
	const before = call.completionTexts.findIndex((text) => {
		characters += text.length;
		return characters > at;
	});
	return at < 0 ? 0 : before;
}

function commonPrefix(a: readonly number[], b: readonly number[]): number {
	const limit = Math.min(a.length, b.length);
	let length = 0;
	while (length < limit && a[length] === b[length]) length++;
	return length;
}
