import { HELLO, json, refusal, sse, startStream, stream, streams } from "./replies.ts";
import type { Reaction } from "./upstream.ts";

export interface Fault {
	name: string;
	/** A fresh engine that has this fault. */
	script: () => Reaction;
	/** The provider failure the rollout ends with; null: it gets over it. */
	failure: string | null;
	/** Requests the engine may see until then, all tries of one turn included. */
	maxUpstreamRequests: number;
}

const cut = streams.vllm().slice(0, streams.vllm().indexOf("lo ✓") + 40);
const beforeFinish = streams
	.openai()
	.slice(
		0,
		streams
			.openai()
			.indexOf(
				'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"engine-model","choices":[{"index":0,"delta":{},',
			),
	);

/** Keeps failing `times` times, then answers like a healthy engine. */
const recovering =
	(fault: Reaction, times: number): (() => Reaction) =>
	() =>
	(exchange) =>
		exchange.index < times ? fault(exchange) : stream(streams.vllm())(exchange);

const dropBeforeHeaders: Reaction = ({ response }) => void response.destroy();

const dropMidStream: Reaction = ({ response }) => {
	startStream({ response });
	response.write(cut, () => response.destroy());
};

const hangBeforeHeaders: Reaction = () => {};

const hangMidStream: Reaction = ({ response }) => {
	startStream({ response });
	response.write(cut);
};

const overflow = refusal(
	400,
	"This model's maximum context length is 4096 tokens. However, your prompt has 9000.",
	"context_length_exceeded",
);

/** Every way an engine is known to fail an agent, and what must come of it. */
export const faults: Fault[] = [
	{
		name: "500 forever",
		script: () => refusal(500, "boom"),
		failure: "provider_error",
		maxUpstreamRequests: 4,
	},
	{
		name: "503 forever",
		script: () => refusal(503, "busy"),
		failure: "provider_error",
		maxUpstreamRequests: 4,
	},
	{
		name: "429 forever",
		script: () => refusal(429, "slow down"),
		failure: "rate_limited",
		maxUpstreamRequests: 8,
	},
	{
		name: "429 with a retry-after of hours",
		script: () => json({ error: { message: "slow down" } }, 429, { "retry-after": "7200" }),
		failure: "rate_limited",
		maxUpstreamRequests: 4,
	},
	{
		name: "400",
		script: () => refusal(400, "bad field"),
		failure: "provider_rejected",
		maxUpstreamRequests: 1,
	},
	{ name: "401", script: () => refusal(401, "bad key"), failure: "provider_auth", maxUpstreamRequests: 1 },
	{
		name: "404",
		script: () => refusal(404, "no such model"),
		failure: "provider_rejected",
		maxUpstreamRequests: 1,
	},
	{
		name: "context overflow forever",
		script: () => overflow,
		failure: "context_overflow",
		maxUpstreamRequests: 3,
	},
	{
		name: "closed before headers",
		script: () => dropBeforeHeaders,
		failure: "provider_unreachable",
		maxUpstreamRequests: 4,
	},
	{
		name: "dropped in the middle",
		script: () => dropMidStream,
		failure: "provider_truncated",
		maxUpstreamRequests: 4,
	},
	{
		name: "hang before headers",
		script: () => hangBeforeHeaders,
		failure: "provider_hang",
		maxUpstreamRequests: 2,
	},
	{
		name: "hang in the middle",
		script: () => hangMidStream,
		failure: "provider_hang",
		maxUpstreamRequests: 2,
	},
	{
		name: "clean end without finish reason",
		script: () => stream(beforeFinish),
		failure: "provider_truncated",
		maxUpstreamRequests: 4,
	},
	{ name: "empty stream", script: () => stream(""), failure: "provider_malformed", maxUpstreamRequests: 4 },
	{
		name: "empty stream that says it is done",
		script: () => stream(sse("[DONE]")),
		failure: "provider_malformed",
		maxUpstreamRequests: 4,
	},
	{
		name: "broken JSON in the stream",
		script: () => stream(`${sse('{"id": "x", "choices": [{')}${sse("[DONE]")}`),
		failure: "provider_malformed",
		maxUpstreamRequests: 4,
	},
	{
		name: "an error event in the stream",
		script: () => stream(sse({ error: { message: "engine died", type: "server_error" } })),
		failure: "provider_error",
		maxUpstreamRequests: 4,
	},
	{
		name: "an error event that says the prompt is too long",
		script: () => stream(sse({ error: { message: "maximum context length is 10", code: 400 } })),
		failure: "context_overflow",
		maxUpstreamRequests: 3,
	},
	{
		name: "the engine aborts its answer",
		script: () => stream(streams.vllm().replace('"finish_reason":"stop"', '"finish_reason":"abort"')),
		failure: "provider_error",
		maxUpstreamRequests: 4,
	},
	{
		name: "a page of HTML with status 200",
		script: () => stream("<html>welcome</html>"),
		failure: "provider_malformed",
		maxUpstreamRequests: 4,
	},
	{
		name: "500 twice, then well",
		script: recovering(refusal(500, "boom"), 2),
		failure: null,
		maxUpstreamRequests: 3,
	},
	{
		name: "dropped in the middle once, then well",
		script: recovering(dropMidStream, 1),
		failure: null,
		maxUpstreamRequests: 2,
	},
	{
		name: "done without a finish reason",
		script: () => stream(`${beforeFinish}${sse("[DONE]")}`),
		failure: null,
		maxUpstreamRequests: 1,
	},
	{
		name: "dropped after the finish reason",
		script:
			() =>
			({ response }) => {
				startStream({ response });
				const text = streams.vllm();
				response.write(
					text.slice(
						0,
						text.indexOf(
							'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"engine-model","choices":[],',
						),
					),
					() => response.destroy(),
				);
			},
		failure: null,
		maxUpstreamRequests: 1,
	},
];

/** What a healthy answer to any of them reads like. */
export const HEALTHY_TEXT = HELLO.map(([, text]) => text).join("");
