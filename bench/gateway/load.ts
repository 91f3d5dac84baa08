import { createConnection, type Socket } from "node:net";
import { performance } from "node:perf_hooks";
import { setTimeout as wait } from "node:timers/promises";

/** What one load asks for: `streams` at once, `requests` one after another on each. */
export interface Load {
	url: string;
	query: string;
	keys: string[];
	streams: number;
	requests: number;
	/** Streams start evenly over this time, as rollouts do. */
	spreadMs: number;
	/** Ask for ids and logprobs oneself, as a trainer without a gateway would. */
	asksForTokens: boolean;
}

export interface LoadResult {
	events: number;
	wallMs: number;
	/** Milliseconds to the first body byte, of each request. */
	firstByteMs: number[];
}

/** About what OpenCode sends in its first turn: 10 kB of system prompt, 20 kB of tools. */
const PADDING = {
	messages: [
		{ role: "system", content: "You are a coding agent. ".repeat(400) },
		{ role: "user", content: "Make the tests pass." },
	],
	tools: Array.from({ length: 10 }, (_, i) => ({
		type: "function",
		function: {
			name: `tool_${i}`,
			description: "Does something useful. ".repeat(80),
			parameters: { type: "object" },
		},
	})),
};

process.on("message", (load: Load) => void run(load).then((result) => process.send!(result)));
process.on("disconnect", () => process.exit(0));

async function run(load: Load): Promise<LoadResult> {
	const result: LoadResult = { events: 0, wallMs: 0, firstByteMs: [] };
	const started = performance.now();
	await Promise.all(Array.from({ length: load.streams }, (_, stream) => runStream(load, stream, result)));
	result.wallMs = performance.now() - started;
	return result;
}

async function runStream(load: Load, stream: number, result: LoadResult): Promise<void> {
	const url = new URL(load.url);
	const socket = createConnection({ port: Number(url.port), host: url.hostname, noDelay: true });
	socket.on("error", (error) => {
		throw error;
	});
	await new Promise((resolve) => socket.once("connect", resolve));
	await wait((load.spreadMs * stream) / load.streams);
	for (let i = 0; i < load.requests; i += 1) await runRequest(load, socket, url, stream, i, result);
	socket.destroy();
}

/** Raw HTTP: the client must cost as little as possible, since it shares the machine. */
function runRequest(
	load: Load,
	socket: Socket,
	url: URL,
	stream: number,
	index: number,
	result: LoadResult,
): Promise<void> {
	const tokenFlags = load.asksForTokens ? { return_token_ids: true, logprobs: true, top_logprobs: 0 } : {};
	const body = JSON.stringify({
		model: "bench",
		stream: true,
		stream_options: { include_usage: true },
		user: `${stream}-${index}`,
		...tokenFlags,
		...PADDING,
	});
	const { promise, resolve } = Promise.withResolvers<void>();
	const started = performance.now();
	let hasBody = false;
	let tail = "";
	const onData = (chunk: Buffer) => {
		const text = tail + chunk.toString("latin1");
		if (!hasBody && text.includes("data: ")) {
			hasBody = true;
			result.firstByteMs.push(performance.now() - started);
		}
		let at = text.indexOf("\n\n");
		while (at >= 0) {
			result.events += 1;
			at = text.indexOf("\n\n", at + 2);
		}
		tail = text.endsWith("\n") && !text.endsWith("\n\n") ? "\n" : "";
		if (!text.endsWith("0\r\n\r\n")) return;
		socket.off("data", onData);
		resolve();
	};
	socket.on("data", onData);
	socket.write(
		`POST ${url.pathname}/chat/completions${load.query} HTTP/1.1\r\nhost: bench\r\n` +
			`authorization: Bearer ${load.keys[stream % load.keys.length]}\r\ncontent-type: application/json\r\n` +
			`content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
	);
	return promise;
}
