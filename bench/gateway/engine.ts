import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * An engine that samples nothing: after a first event at once, every open stream gets one token per step, all in the
 * same step, as a batching engine does. `?rate=` is steps per second, `?tokens=` the length; rate 0 is as fast as possible.
 */
interface OpenStream {
	response: ServerResponse;
	left: number;
}

const head = { id: "chatcmpl-bench", object: "chat.completion.chunk", created: 1, model: "bench" };
const event = (data: object) => `data: ${JSON.stringify({ ...head, ...data })}\n\n`;

const FIRST = event({
	choices: [{ index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }],
	prompt_token_ids: Array.from({ length: 2000 }, (_, i) => i * 7),
});
const FIRST_PLAIN = event({
	choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }],
});

const tokenEvents = Array.from({ length: 64 }, (_, i) => {
	const token = ` word${i}`;
	const logprobs = {
		content: [{ token, logprob: -0.1 - i / 100, bytes: [...Buffer.from(token)], top_logprobs: [] }],
	};
	return event({
		choices: [{ index: 0, delta: { content: token }, logprobs, finish_reason: null, token_ids: [1000 + i] }],
	});
});
const plainEvents = Array.from({ length: 64 }, (_, i) =>
	event({ choices: [{ index: 0, delta: { content: ` word${i}` }, finish_reason: null }] }),
);

function last(tokens: number): string {
	return (
		event({ choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: "stop" }] }) +
		event({
			choices: [],
			usage: { prompt_tokens: 2000, completion_tokens: tokens, total_tokens: 2000 + tokens },
		}) +
		"data: [DONE]\n\n"
	);
}

/** One clock for all streams of the same rate. */
const batches = new Map<number, Set<OpenStream>>();

function step(streams: Set<OpenStream>, events: string[], tokens: number): void {
	for (const stream of streams) {
		stream.left -= 1;
		stream.response.write(events[stream.left & 63]!);
		if (stream.left > 0) continue;
		streams.delete(stream);
		stream.response.end(last(tokens));
	}
}

async function flood(response: ServerResponse, events: string[], tokens: number): Promise<void> {
	for (let i = 0; i < tokens; i += 1) {
		if (!response.write(events[i & 63]!)) await new Promise((resolve) => response.once("drain", resolve));
	}
	response.end(last(tokens));
}

const server = createServer((request, response) => {
	if (request.url?.startsWith("/tokenize")) {
		response.writeHead(404).end();
		return;
	}
	const chunks: Buffer[] = [];
	request.on("data", (chunk: Buffer) => chunks.push(chunk));
	request.on("end", () => {
		const body = JSON.parse(Buffer.concat(chunks).toString("utf8")) as { return_token_ids?: boolean };
		const url = new URL(request.url ?? "/", "http://engine");
		const rate = Number(url.searchParams.get("rate"));
		const tokens = Number(url.searchParams.get("tokens"));
		const events = body.return_token_ids ? tokenEvents : plainEvents;
		response.writeHead(200, { "content-type": "text/event-stream" });
		response.write(body.return_token_ids ? FIRST : FIRST_PLAIN);
		if (rate === 0) {
			void flood(response, events, tokens);
			return;
		}
		let streams = batches.get(rate);
		if (!streams) {
			const fresh = new Set<OpenStream>();
			streams = fresh;
			batches.set(rate, fresh);
			setInterval(() => step(fresh, events, tokens), 1000 / rate);
		}
		streams.add({ response, left: tokens });
	});
});

server.listen(0, "127.0.0.1", () => process.send!({ port: (server.address() as AddressInfo).port }));
process.on("disconnect", () => process.exit(0));
