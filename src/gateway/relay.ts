import type { IncomingHttpHeaders } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import type { Dispatcher } from "undici";
import { messageOf } from "../errors.ts";
import { toCallSummary } from "../model/call.ts";
import type { Endpoint } from "../model/endpoint.ts";
import { neutralised } from "../model/sampling.ts";
import type { Origin } from "./agent-side/purpose.ts";
import type { AgentReply } from "./agent-side/reply.ts";
import { AGENT_GONE, bugEnding, cutEnding, type Ending, giveUp, passOn } from "./call-ending.ts";
import { type CallDraft, type CallEnding, toModelCall } from "./capture.ts";
import { toQuestion } from "./engines/ask.ts";
import { type Engine, toLosses } from "./engines/engine.ts";
import type { EngineBook } from "./engines/engines.ts";
import type { GatewayLimits } from "./limits.ts";
import type { GatewayLog } from "./log.ts";
import { type Patched, type PatchInput, patchRequest } from "./patch.ts";
import type { JsonObject, Protocol } from "./protocols/protocol.ts";
import type { Flight, RolloutTap } from "./tap.ts";
import type { Reservation, TokenCounts } from "./token-budget.ts";
import type { Turns } from "./turns.ts";
import { faultOfError, type UpstreamFault } from "./upstream/fault.ts";
import { nextStep } from "./upstream/next-step.ts";
import { receive } from "./upstream/receive.ts";
import { toForwarded } from "./upstream/upstream.ts";
import type { ServedWeights } from "./weights.ts";

/** One request of the agent, read and understood. */
export interface AgentRequest {
	/** Hash of the body and whose it is: the same for a retry. */
	key: string;
	protocol: Protocol;
	headers: IncomingHttpHeaders;
	origin: Origin;
	/** How much came over the wire. */
	bytes: number;
	/** What of it may go upstream, and what may not. */
	body: JsonObject;
	leftOut: JsonObject;
}

export interface RelayParts {
	dispatcher: Dispatcher;
	engines: EngineBook;
	engine: Engine;
	weights: ServedWeights;
	turns: Turns;
	limits: GatewayLimits;
	log: GatewayLog;
}

/** Patch → upstream → agent, with one record at the end, whatever happened. */
export async function relay(
	request: AgentRequest,
	reply: AgentReply,
	tap: RolloutTap,
	flight: Flight,
	reservation: Reservation,
	parts: RelayParts,
): Promise<void> {
	const draft = startDraft(request, tap, flight, parts);
	tap.options.onCallStart?.({ index: flight.index, purpose: request.origin.purpose });
	const call: Call = {
		request,
		reply,
		tap,
		flight,
		reservation,
		parts,
		draft,
		waitedMs: 0,
		clippedByBudget: false,
		key: tap.options.endpoint.apiKey,
		refusedKey: null,
	};
	const { endpoint, sampling } = tap.options;
	const logprobsMode = draft.captures ? parts.engines.logprobsMode(endpoint, sampling) : null;
	const ending = await converse(call);
	if (ending.complete && logprobsMode) draft.logprobsMode = await logprobsMode;
	draft.servedWeights = [...draft.servedWeights, parts.weights.of(endpoint)];
	const isDelivered = ending.complete && !reply.isGone;
	if (ending.complete) tap.seam.close(draft, parts, isDelivered);
	const error = ending.complete && !isDelivered ? AGENT_GONE : ending.error;
	tap.ledger.end(request.key, flight.index, request.origin.sessionId, isDelivered);
	reservation.settle(toSpent(call));
	const isKept = await keep(call, { complete: isDelivered, error });
	if (isKept) ending.deliver();
	else reply.destroy();
	afterwards(call, ending);
}

interface Call {
	request: AgentRequest;
	reply: AgentReply;
	tap: RolloutTap;
	flight: Flight;
	reservation: Reservation;
	parts: RelayParts;
	draft: CallDraft;
	waitedMs: number;
	clippedByBudget: boolean;
	/** What the last attempt was made with. */
	key: string | undefined;
	/** A login's token that the engine did not take. */
	refusedKey: string | null;
}

/** Tries until there is an answer, or no hope. */
async function converse(call: Call): Promise<Ending> {
	for (;;) {
		try {
			const deliver = await attempt(call);
			recovered(call);
			return { complete: true, error: null, deliver };
		} catch (error) {
			if (call.flight.signal.aborted) return cutEnding(call.flight, call.reply);
			const fault = faultOfError(error, call.draft.upstreamStatus !== null)?.without(call.key);
			if (!fault) return bugEnding(call.request.protocol, call.reply, error, call.parts.log);
			if (!call.reply.hasSpoken && canRenewKey(call, fault)) continue;
			if (!call.reply.hasSpoken && call.tap.seam.giveUp(call.draft, fault)) continue;
			if (!call.reply.hasSpoken && (await inquire(call, fault))) continue;
			const ending = await answerTo(call, fault);
			if (ending) return ending;
		}
	}
}

/** A login's token may be taken back before its time: once in each call another is tried. */
function canRenewKey(call: Call, { status }: UpstreamFault): boolean {
	if (status !== 401 || !call.tap.options.endpoint.tokens || call.refusedKey !== null) return false;
	call.refusedKey = call.key ?? null;
	return true;
}

/** Others learn with us, so the engine is asked in our own words: a box must not teach them. */
async function inquire(call: Call, fault: UpstreamFault): Promise<boolean> {
	const { engines, engine } = call.parts;
	const { body } = call.draft;
	if (!call.request.protocol.carriesTokens) return false;
	// About fields, not values: an engine that takes no temperature of 5 does take temperatures.
	const input = toPatchInput(call, toQuestion(call.request.body));
	const question = patchRequest({ ...input, sampling: neutralised(input.sampling) }).body;
	return await engines.inquire(call.tap.options.endpoint, engine, { fault, body }, question);
}

/** The agent goes on, so what was wrong before is no longer the reason for anything. */
function recovered({ tap, request }: Call): void {
	const { purpose } = request.origin;
	if (purpose === "title") return;
	tap.lastUpstreamError = null;
	// A summary that worked says nothing about whether the prompt fits now.
	if (purpose !== "compaction") tap.overflows = 0;
}

/** One request to the engine. Returns how to let the agent have the end of the answer. */
async function attempt(call: Call): Promise<() => void> {
	const { request, tap, parts, draft, reply } = call;
	const endpoint = await withKey(call);
	const patched = await patchInTurn(call);
	// Nobody else waits for the engine's renders.
	const prompt = await tap.seam.open(draft, patched.body, parts);
	// Only until the request is on its way: the answer takes as long as it takes.
	using _turn = await parts.turns.take(request.bytes);
	call.clippedByBudget = patched.clippedByBudget;
	draft.dialect = parts.engine.dialect;
	draft.body = patched.body;
	draft.streams = patched.engineStreams;
	draft.patch = { ...request.leftOut, ...patched.patch };
	draft.losses = toLosses(parts.engine);
	draft.upstreamStatus = null;
	draft.answer = request.protocol.startAnswer(patched.hidden);
	reply.forget();
	return receive({
		draft,
		patched: prompt === null ? patched : { ...patched, body: { ...patched.body, ...prompt } },
		answer: draft.answer,
		reply,
		endpoint,
		forwarded: toForwarded(request.headers),
		dispatcher: parts.dispatcher,
		limits: parts.limits,
		signal: call.flight.signal,
	});
}

async function patchInTurn(call: Call): Promise<Patched> {
	using _turn = await call.parts.turns.take(call.request.bytes);
	return patchRequest(toPatchInput(call, call.request.body));
}

async function withKey(call: Call): Promise<Endpoint> {
	const { endpoint } = call.tap.options;
	if (!endpoint.tokens) return endpoint;
	call.key = await endpoint.tokens.fresh(call.refusedKey);
	return { ...endpoint, apiKey: call.key };
}

function toPatchInput({ request, tap, reservation, parts, draft }: Call, body: JsonObject): PatchInput {
	return {
		protocol: request.protocol,
		body,
		endpoint: tap.options.endpoint,
		models: tap.options.models,
		sampling: tap.options.sampling,
		dialect: parts.engine.dialect,
		refused: parts.engine.refused,
		wantsMaxCompletionTokens: parts.engine.wantsMaxCompletionTokens,
		captures: draft.captures,
		outputTokensLeft: reservation.outputTokens,
	};
}

/** Decides about a fault: null means wait is over, try again. */
async function answerTo(call: Call, fault: UpstreamFault): Promise<Ending | null> {
	const { tap, reply, request, parts } = call;
	const failure = fault.toFailure();
	tap.lastUpstreamError = failure;
	const error = { code: fault.code, message: fault.message };
	if (fault.code === "context_overflow" && !reply.isStarted && request.origin.purpose !== "title") {
		tap.overflows += 1;
		// Once, the agent may learn of it in the engine's own words and shorten its prompt.
		if (tap.overflows === 1)
			return { complete: false, error, deliver: () => passOn(request.protocol, reply, fault) };
	}
	const failures = tap.ledger.failed(request.key);
	const trouble = { fault, failures, hasSpoken: reply.hasSpoken, waitedMs: call.waitedMs };
	const next = nextStep(trouble, parts.limits);
	if (next.type === "break") return { complete: false, error, deliver: () => reply.destroy() };
	if (next.type === "again") {
		if (fault.code === "rate_limited") call.waitedMs += next.delayMs;
		try {
			await wait(next.delayMs, undefined, { signal: call.flight.signal });
		} catch {
			return cutEnding(call.flight, reply);
		}
		return null;
	}
	const deliver = () => giveUp(request.protocol, reply, failure);
	// A rollout can do without a title.
	return request.origin.purpose === "title"
		? { complete: false, error, deliver }
		: { complete: false, error, deliver, stop: failure };
}

/** As the engine counted it. An answer that was cut before that counts as far as it was heard, and its prompt by its size. */
function toSpent({ request, flight, reservation, draft }: Call): TokenCounts {
	const { answer } = draft;
	const heard = answer ? Math.max(answer.tokens.ids.length, answer.tokens.logprobs.length, answer.pieces) : 0;
	const isCut = flight.signal.aborted && answer !== null;
	// Of an answer in one piece nobody knows how far it had come.
	const unheard = isCut && !draft.streams ? (reservation.outputTokens ?? 0) : 0;
	const isFinished = answer !== null && answer.finishReason !== null;
	const promptTokens = answer?.usage?.promptTokens ?? answer?.tokens.promptIds.length ?? 0;
	const completionTokens = answer?.usage?.completionTokens ?? 0;
	return {
		promptTokens: promptTokens === 0 && (isCut || heard > 0) ? guessPrompt(request) : promptTokens,
		completionTokens:
			isFinished && answer.usage ? completionTokens : Math.max(completionTokens, heard, unheard),
	};
}

/** Tokens are about four bytes of JSON. */
export function guessPrompt({ bytes }: AgentRequest): number {
	return Math.ceil(bytes / 4);
}

/** Keeps the call. False: it could not be kept, so the agent must not go on as if it had been. */
async function keep(call: Call, ending: CallEnding): Promise<boolean> {
	using _turn = await call.parts.turns.take(call.request.bytes);
	const record = toModelCall(call.draft, ending, Date.now());
	try {
		await call.tap.record(record);
	} catch (error) {
		call.tap.end({
			type: "failure",
			failure: { boundary: "gateway", code: "capture_failed", message: messageOf(error), retryable: true },
		});
		return false;
	}
	call.tap.options.onCallEnd?.(toCallSummary(record));
	return true;
}

function afterwards(call: Call, ending: Ending): void {
	const { tap, draft } = call;
	if (ending.stop) tap.end({ type: "failure", failure: ending.stop });
	if (call.clippedByBudget && draft.answer?.finishReason === "length")
		tap.end({ type: "budget", what: tap.exhausted ?? "output tokens" });
}

function startDraft(
	request: AgentRequest,
	tap: RolloutTap,
	flight: Flight,
	{ engine, weights }: RelayParts,
): CallDraft {
	return {
		index: flight.index,
		attempt: tap.options.attempt,
		retryOf: tap.ledger.begin(request.key, flight.index),
		origin: request.origin,
		protocol: request.protocol,
		dialect: engine.dialect,
		startedAt: Date.now(),
		firstByteMs: null,
		upstreamStatus: null,
		body: request.body,
		patch: {},
		streams: false,
		answer: null,
		engine: engine.name,
		logprobsMode: tap.options.endpoint.logprobsMode,
		servedWeights: [weights.of(tap.options.endpoint)],
		losses: [],
		captures: tap.options.sink !== undefined,
	};
}
