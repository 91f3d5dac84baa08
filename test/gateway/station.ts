import { createConnection } from "node:net";
import { Agent, request as send } from "undici";
import { openGateway } from "../../src/gateway/agent-side/server.ts";
import type { Tap, TapOptions, TapStop } from "../../src/gateway/gateway.ts";
import type { GatewayLimits } from "../../src/gateway/limits.ts";
import { ServedWeights } from "../../src/gateway/weights.ts";
import type { CallSummary, ModelCall } from "../../src/model/call.ts";
import { Sampling } from "../../src/model/request.ts";
import { Budget } from "../../src/model/task.ts";
import { type JsonObject, openUpstream, type Reaction, type Upstream } from "../fakes/upstream.ts";

export const QUICK: Partial<GatewayLimits> = {
	retryDelayMs: 1,
	rateLimitDelayMs: 20,
	rateLimitTotalMs: 60,
	upstreamHeadersMs: 200,
	upstreamChunkMs: 200,
};

export const CHAT: JsonObject = {
	model: "gw/model",
	stream: true,
	stream_options: { include_usage: true },
	max_tokens: 8192,
	tool_choice: "auto",
	messages: [
		{ role: "system", content: "You are a coding agent." },
		{ role: "user", content: "Say hello." },
	],
	tools: [{ type: "function", function: { name: "bash", parameters: { type: "object" } } }],
};

export const UPSTREAM_KEY = "sk-the-real-secret";

export interface Station extends AsyncDisposable {
	upstream: Upstream;
	gateway: Awaited<ReturnType<typeof openGateway>>;
	url: string;
	calls: ModelCall[];
	summaries: CallSummary[];
	stops: TapStop[];
	log: string[];
	open(options?: Partial<TapOptions>): Tap;
	/** POSTs to the gateway and reads the whole answer. */
	ask(key: string, body?: JsonObject, options?: AskOptions): Promise<Answer>;
}

interface AskOptions {
	headers?: Record<string, string>;
	path?: string;
}

export interface Answer {
	status: number;
	text: string;
	events: string[];
	/** The connection broke before the answer was complete. */
	isBroken: boolean;
	headers: Record<string, unknown>;
}

/** A gateway between a fake engine and a plain HTTP client, on real sockets. */
export async function openStation(
	reaction: Reaction,
	options: { limits?: Partial<GatewayLimits>; ownedBy?: string; weights?: ServedWeights } = {},
): Promise<Station> {
	const upstream = await openUpstream(
		reaction,
		options.ownedBy === undefined ? {} : { ownedBy: options.ownedBy },
	);
	const log: string[] = [];
	const note = (fields: object, message: string) => void log.push(`${message} ${JSON.stringify(fields)}`);
	const gateway = await openGateway({
		limits: { ...QUICK, ...options.limits },
		log: { info: note, warn: note, error: note },
		weights: options.weights ?? new ServedWeights(),
	});
	const url = await gateway.listen("127.0.0.1", 0);
	const client = new Agent();
	const calls: ModelCall[] = [];
	const summaries: CallSummary[] = [];
	const stops: TapStop[] = [];
	return {
		upstream,
		gateway,
		url,
		calls,
		summaries,
		stops,
		log,
		open: (given = {}) =>
			gateway.openTap({
				rolloutId: "rol_1",
				attempt: 1,
				boxId: "box_1",
				overTcp: true,
				endpoint: {
					name: "fake",
					baseUrl: upstream.baseUrl,
					model: "real-model",
					apiKey: UPSTREAM_KEY,
					dialect: "vllm",
					disableThinking: false,
				},
				sampling: Sampling.parse({}),
				budget: Budget.parse({}),
				sink: {
					async write(call) {
						calls.push(call);
					},
				},
				onCallEnd: (summary) => void summaries.push(summary),
				onStop: (stop) => void stops.push(stop),
				...given,
			}),
		ask: (key, body = CHAT, ask = {}) => post(client, url, key, body, ask),
		async [Symbol.asyncDispose]() {
			await gateway[Symbol.asyncDispose]();
			await client.destroy();
			await upstream[Symbol.asyncDispose]();
		},
	};
}

async function post(
	client: Agent,
	url: string,
	key: string,
	body: JsonObject,
	ask: AskOptions,
): Promise<Answer> {
	const response = await send(`${url}${ask.path ?? "/chat/completions"}`, {
		dispatcher: client,
		method: "POST",
		headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...ask.headers },
		body: JSON.stringify(body),
	});
	let text = "";
	let isBroken = false;
	try {
		for await (const chunk of response.body.setEncoding("utf8")) text += chunk;
	} catch {
		isBroken = true;
	}
	const events = text.split("\n\n").filter((event) => event !== "");
	return { status: response.statusCode, text, events, isBroken, headers: response.headers };
}

/** A raw connection, for clients that do not behave. */
export function connect(url: string): ReturnType<typeof createConnection> {
	const { hostname, port } = new URL(url);
	return createConnection(Number(port), hostname);
}
