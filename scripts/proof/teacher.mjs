import { once } from "node:events";
import { createServer } from "node:http";
import { pipeline } from "node:stream/promises";
import { lineFor } from "./lessons.mjs";

/**
 * Stands before an engine that can be dictated to, and dictates the lessons. Whatever parses, templates and counts is the engine's
 * own, so what is learnt is exactly what will be asked. Dispose to end it.
 */
export async function openTeacher(engine) {
	const end = (await tokensOf(engine, "<|end|>"))[0];
	const server = createServer(async (request, response) => {
		const chunks = [];
		for await (const chunk of request) chunks.push(chunk);
		let body = Buffer.concat(chunks);
		if (request.url.endsWith("/chat/completions")) body = await dictated(engine, body, end);
		const answer = await fetch(`${engine.origin}${request.url}`, {
			method: request.method,
			headers: { "content-type": "application/json" },
			...(request.method === "POST" ? { body } : {}),
		});
		response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "text/plain" });
		await pipeline(answer.body, response);
	});
	server.listen(0, "127.0.0.1");
	await once(server, "listening");
	const origin = `http://127.0.0.1:${server.address().port}`;
	return {
		origin,
		baseUrl: `${origin}/v1`,
		async [Symbol.asyncDispose]() {
			server.close();
			server.closeAllConnections();
		},
	};
}

async function dictated(engine, body, end) {
	const asked = JSON.parse(body.toString());
	const line = lineFor(asked);
	if (line === null) return body;
	const pieces = await Promise.all(line.map((piece) => tokensOf(engine, piece)));
	return JSON.stringify({ ...asked, vllm_xargs: { dictated: [...pieces.flat(), end] } });
}

async function tokensOf(engine, prompt) {
	const response = await fetch(`${engine.origin}/tokenize`, {
		method: "POST",
		headers: { "content-type": "application/json" },
		body: JSON.stringify({ model: "proof", prompt, add_special_tokens: false }),
	});
	if (!response.ok) throw new Error(`/tokenize answered ${response.status}: ${await response.text()}`);
	return (await response.json()).tokens;
}
