import { createHash, randomBytes } from "node:crypto";
import type { CallSummary } from "../model/call.ts";
import type { Phase, RolloutEvent } from "../model/event.ts";
import type { Failure } from "../model/failure.ts";
import { kindOf } from "../model/id.ts";

type Attributes = Record<string, string | number | boolean | null>;

export interface Span {
	traceId: string;
	spanId: string;
	parentSpanId?: string;
	name: string;
	startMs: number;
	endMs: number;
	attributes: Attributes;
	failure?: Failure | null;
}

export interface Exporter extends AsyncDisposable {
	/** Never throws and never waits: what cannot be delivered is dropped, with a line in the log. */
	send(spans: Span[]): void;
}

/** One attempt of a rollout that is under way in this process. */
interface Open {
	root: Span;
	phase: { name: Phase; since: number; spanId: string } | null;
	finished: Span[];
}

const SPANS_PER_POST = 200;

/** Turns the events of rollouts and conversations into spans: one for each attempt, below it one for each phase and one for each call. */
export class Telemetry implements AsyncDisposable {
	readonly #exporter: Exporter;
	readonly #open = new Map<string, Open>();

	constructor(exporter: Exporter) {
		this.#exporter = exporter;
	}

	onEvent(event: RolloutEvent): void {
		const { rolloutId, at } = event;
		if (event.type === "rollout-start" || event.type === "conversation-start")
			this.#start(rolloutId, at, event.attempt, event.worker);
		const open = this.#open.get(rolloutId);
		if (!open) return;
		if (event.type === "phase-start") enterPhase(open, event.phase, at);
		if (event.type === "sandbox-open") open.root.attributes["paddock.sandbox.backend"] = event.backend;
		if (event.type === "call-end") open.finished.push(callSpan(open, event.call, at));
		if (event.type === "attempt-failed") this.#end(rolloutId, open, at, "failed", event.failure);
		if (event.type === "rollout-end") {
			open.root.attributes["paddock.reward"] = event.reward;
			this.#end(rolloutId, open, at, event.outcome, event.failure);
		}
		if (event.type === "conversation-end") this.#end(rolloutId, open, at, event.reason, event.failure);
		if (open.finished.length >= SPANS_PER_POST) this.#exporter.send(open.finished.splice(0));
	}

	/** Waits until what has ended is delivered, or given up. */
	[Symbol.asyncDispose](): PromiseLike<void> {
		return this.#exporter[Symbol.asyncDispose]();
	}

	#start(rolloutId: string, at: number, attempt: number, worker: string): void {
		const root: Span = {
			traceId: createHash("sha256").update(rolloutId).digest("hex").slice(0, 32),
			spanId: newSpanId(),
			name: kindOf(rolloutId),
			startMs: at,
			endMs: at,
			attributes: { "paddock.rollout.id": rolloutId, "paddock.attempt": attempt, "paddock.worker": worker },
		};
		this.#open.set(rolloutId, { root, phase: null, finished: [] });
	}

	#end(rolloutId: string, open: Open, at: number, outcome: string, failure: Failure | null): void {
		enterPhase(open, null, at);
		open.root.endMs = at;
		open.root.attributes["paddock.outcome"] = outcome;
		open.root.failure = failure;
		this.#open.delete(rolloutId);
		this.#exporter.send([...open.finished.splice(0), open.root]);
	}
}

function enterPhase(open: Open, phase: Phase | null, at: number): void {
	if (open.phase) {
		const { name, since, spanId } = open.phase;
		open.finished.push({
			...child(open, `phase ${name}`),
			spanId,
			startMs: since,
			endMs: at,
			attributes: {},
		});
	}
	open.phase = phase === null || phase === "done" ? null : { name: phase, since: at, spanId: newSpanId() };
}

function callSpan(open: Open, call: CallSummary, at: number): Span {
	return {
		...child(open, `call ${call.purpose}`),
		parentSpanId: open.phase?.spanId ?? open.root.spanId,
		startMs: at - call.latencyMs,
		endMs: at,
		attributes: {
			"gen_ai.usage.input_tokens": call.promptTokens,
			"gen_ai.usage.output_tokens": call.completionTokens,
			"paddock.call.index": call.index,
			"paddock.call.complete": call.complete,
			"paddock.call.finish_reason": call.finishReason,
			"paddock.call.error": call.error?.code ?? null,
		},
	};
}

function child(open: Open, name: string): Pick<Span, "traceId" | "spanId" | "parentSpanId" | "name"> {
	return { traceId: open.root.traceId, spanId: newSpanId(), parentSpanId: open.root.spanId, name };
}

function newSpanId(): string {
	return randomBytes(8).toString("hex");
}
