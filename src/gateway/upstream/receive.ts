import type { IncomingHttpHeaders } from "node:http";
import type { Dispatcher } from "undici";
import type { Endpoint } from "../../model/endpoint.ts";
import type { AgentReply } from "../agent-side/reply.ts";
import type { CallDraft } from "../capture.ts";
import type { GatewayLimits } from "../limits.ts";
import type { Patched } from "../patch.ts";
import { type EngineAnswer, isObject } from "../protocols/protocol.ts";
import { SseParser } from "../protocols/sse.ts";
import { faultOfStatus, UpstreamFault } from "./fault.ts";
import { type Flow, type Receiver, send } from "./upstream.ts";

export interface Reception {
	draft: CallDraft;
	patched: Patched;
	answer: EngineAnswer;
	reply: AgentReply;
	endpoint: Endpoint;
	forwarded: Record<string, string>;
	dispatcher: Dispatcher;
	limits: GatewayLimits;
	signal: AbortSignal;
}

/** Largest error text that is looked at. */
const MAX_ERROR_BYTES = 64 * 1024;

/** Sends the request and takes in the answer; what streams goes on to the agent as it comes. */
export async function receive(reception: Reception): Promise<() => void> {
	const { draft, patched, reply, limits, answer } = reception;
	const receiver = new AnswerReceiver(reception);
	const isBridged = patched.agentStreams && !patched.engineStreams;
	const keepAlive = isBridged ? setInterval(() => reply.comment(), limits.keepAliveMs) : undefined;
	try {
		await send(
			reception.dispatcher,
			{
				endpoint: reception.endpoint,
				protocol: draft.protocol,
				body: patched.body,
				streams: patched.engineStreams,
				headers: reception.forwarded,
				headersMs: patched.engineStreams ? limits.upstreamHeadersMs : limits.upstreamWholeMs,
				chunkMs: limits.upstreamChunkMs,
				signal: reception.signal,
			},
			receiver,
		);
	} catch (error) {
		// A stream that broke after its finish reason lacks nothing the agent or the trace needs.
		if (reception.signal.aborted || error instanceof UpstreamFault || answer.finishReason === null)
			throw error;
	} finally {
		clearInterval(keepAlive);
	}
	return receiver.finish();
}

class AnswerReceiver implements Receiver {
	readonly #reception: Reception;
	readonly #parser = new SseParser();
	readonly #body: Buffer[] = [];
	#bodyBytes = 0;
	#streams = false;
	#flow: Flow | null = null;
	#headers: IncomingHttpHeaders = {};

	constructor(reception: Reception) {
		this.#reception = reception;
	}

	start(status: number, headers: IncomingHttpHeaders, flow: Flow): void {
		this.#reception.draft.upstreamStatus = status;
		this.#headers = headers;
		this.#flow = flow;
		// Some engines answer in one piece although they were asked for a stream.
		const isWhole = String(headers["content-type"]).startsWith("application/json");
		this.#streams = status < 300 && this.#reception.patched.engineStreams && !isWhole;
	}

	data(chunk: Buffer): boolean {
		if (this.#streams) return this.#stream(chunk);
		this.#reception.draft.firstByteMs ??= Date.now() - this.#reception.draft.startedAt;
		this.#bodyBytes += chunk.length;
		const limit = this.#isError ? MAX_ERROR_BYTES : this.#reception.limits.maxAnswerBytes;
		if (this.#bodyBytes <= limit) this.#body.push(chunk);
		else if (!this.#isError)
			throw new UpstreamFault("provider_malformed", "the model endpoint's answer is too large");
		return false;
	}

	finish(): () => void {
		const { reply, answer, patched } = this.#reception;
		if (this.#isError) throw this.#faultOfBody();
		if (this.#streams) {
			const last = this.#parser.end();
			if (last) this.#forward([last]);
			const tail = answer.close();
			return () => reply.release(tail);
		}
		const body = answer.takeWhole(this.#json());
		if (!patched.agentStreams) return () => reply.sendJson(200, body);
		const events = answer.toEvents?.(body);
		if (!events)
			throw new UpstreamFault("provider_malformed", "the model endpoint did not stream its answer");
		return () => reply.release(events);
	}

	get #isError(): boolean {
		return (this.#reception.draft.upstreamStatus ?? 0) >= 300;
	}

	#stream(chunk: Buffer): boolean {
		const { draft, limits } = this.#reception;
		this.#bodyBytes += chunk.length;
		if (this.#bodyBytes > limits.maxStreamBytes)
			throw new UpstreamFault("provider_malformed", "the model endpoint's stream is too long", {
				retryable: false,
			});
		draft.firstByteMs ??= Date.now() - draft.startedAt;
		return this.#forward(this.#parser.push(chunk));
	}

	#forward(events: ReturnType<SseParser["push"]>): boolean {
		const { answer, reply } = this.#reception;
		let pieces: (string | Buffer)[] = [];
		for (const event of events) {
			const step = answer.take(event);
			if (step.last) {
				reply.write(pieces);
				pieces = [];
				reply.hold();
			}
			if (step.forward !== null) pieces.push(step.forward);
			if (answer.isEnded) break;
		}
		if (!reply.write(pieces)) this.#slowDown();
		return answer.isEnded;
	}

	#slowDown(): void {
		const flow = this.#flow;
		flow?.pause();
		this.#reception.reply.onDrain(() => flow?.resume());
	}

	#json(): Record<string, unknown> {
		try {
			const value: unknown = JSON.parse(Buffer.concat(this.#body).toString("utf8"));
			if (isObject(value)) return value;
		} catch {
			// Falls through to the one fault for both.
		}
		throw new UpstreamFault("provider_malformed", "the model endpoint's answer is not a JSON object");
	}

	#faultOfBody(): UpstreamFault {
		const { apiKey } = this.#reception.endpoint;
		const said = Buffer.concat(this.#body).toString("utf8");
		// Before it is shortened: of a key that is cut in two, the first half would pass for ordinary text.
		const text = apiKey ? said.replaceAll(apiKey, "[key]") : said;
		return faultOfStatus(this.#reception.draft.upstreamStatus!, text, retryAfterMs(this.#headers));
	}
}

function retryAfterMs(headers: IncomingHttpHeaders): number | null {
	const milliseconds = Number(headers["retry-after-ms"] ?? Number.NaN);
	if (milliseconds >= 0) return milliseconds;
	const value = headers["retry-after"];
	if (value === undefined) return null;
	const seconds = Number(value);
	if (seconds >= 0) return seconds * 1000;
	const date = Date.parse(value);
	return Number.isNaN(date) ? null : Math.max(0, date - Date.now());
}
