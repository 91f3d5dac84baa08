import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";

/** What the model says to the n-th message of a person. */
export function answerTo(question: string, pieces: number): string {
	return Array.from({ length: pieces }, (_, index) => `${question}.${index} `)
		.join("")
		.trimEnd();
}

/** Streams its answer piece by piece, at the pace of a large model; remembers when it wrote which. */
export async function openPacedModel(pieces: number, everyMs: number) {
	const wroteAt = new Map<string, number>();
	const server = createServer(async (request, response) => {
		if (request.method === "GET") return void response.end(JSON.stringify({ data: [{ id: "paced" }] }));
		const body = JSON.parse(await text(request)) as {
			stream?: boolean;
			messages: { role: string; content: unknown }[];
			tools?: unknown[];
		};
		const isAnswered = body.messages.at(-1)?.role === "tool";
		const asked = JSON.stringify(body.messages.findLast(({ role }) => role === "user")?.content);
		const answer = answerTo(/talk\d+-turn\d+/.exec(asked)?.[0] ?? "-", pieces);
		if (body.stream !== true) {
			response.setHeader("content-type", "application/json");
			const message = { role: "assistant", content: answer };
			return void response.end(JSON.stringify({ choices: [{ index: 0, message, finish_reason: "stop" }] }));
		}
		response.setHeader("content-type", "text/event-stream");
		const send = (delta: object, finish: string | null = null) =>
			response.write(
				`data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", model: "paced", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`,
			);
		// First a command, for which the agent has to ask; then the text.
		if (!isAnswered && body.tools !== undefined) {
			const args = JSON.stringify({ command: "true", description: "does nothing" });
			const call = { index: 0, id: `call_${randomUUID()}`, type: "function" };
			send({ role: "assistant", tool_calls: [{ ...call, function: { name: "bash", arguments: args } }] });
			send({}, "tool_calls");
			return void response.end("data: [DONE]\n\n");
		}
		for (const piece of answer.split(/(?<= )/)) {
			wroteAt.set(piece, performance.timeOrigin + performance.now());
			send({ role: "assistant", content: piece });
			await delay(everyMs);
		}
		send({}, "stop");
		response.end("data: [DONE]\n\n");
	});
	server.listen(0, "127.0.0.1");
	await once(server, "listening");
	return {
		wroteAt,
		baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
		async [Symbol.asyncDispose]() {
			server.closeAllConnections();
			server.close();
		},
	};
}
