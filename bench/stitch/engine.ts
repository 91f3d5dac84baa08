import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/*
 * An engine of vLLM's dialect that answers at once: words are tokens, and a history's calls are printed anew. What is left is the work that
 * every engine has with a prompt: reading it, templating it, making ids of it.
 */

type Json = Record<string, unknown>;

const END = 1;
const known = new Map<string, number>();

function toIds(text: string): number[] {
	return text.split(" ").map((word) => {
		if (word === "<end>") return END;
		const id = known.get(word) ?? known.size + 2;
		known.set(word, id);
		return id;
	});
}

function promptOf(body: Json): number[] {
	const turns = (body.messages as Json[]).map(({ role, content, tool_calls: calls }) => {
		const called = ((calls ?? []) as { function: { arguments: string } }[]).map(
			(call) => ` <call> ${JSON.stringify(JSON.parse(call.function.arguments))}`,
		);
		return `<start> ${String(role)} ${String(content ?? "")}${called.join("")} <end>`;
	});
	const tools = body.tools === undefined ? "" : `${JSON.stringify(body.tools)} <end> `;
	return toIds(`${tools}${turns.join(" ")} <start> assistant`);
}

let calls = 0;

function answerTo(body: Json): Json {
	const given = (body.kv_transfer_params as Json | undefined)?.prompt_token_ids as number[] | undefined;
	const prompt = given ?? promptOf(body);
	calls += 1;
	// Spelled otherwise than a template would.
	const ids = [...toIds('Well. <call> {"at":  1}'), END];
	const call = { id: `c${calls}`, type: "function", function: { name: "look", arguments: '{"at":  1}' } };
	const choice = {
		index: 0,
		message: { role: "assistant", content: "Well. ", tool_calls: [call] },
		finish_reason: "tool_calls",
		token_ids: ids,
		logprobs: { content: ids.map((id) => ({ token: String(id), logprob: -0.1 })) },
	};
	const usage = { prompt_tokens: prompt.length, completion_tokens: ids.length };
	return { id: "c", model: "m", prompt_token_ids: prompt, choices: [choice], usage };
}

const server = createServer(async (request, response) => {
	const chunks: Buffer[] = [];
	for await (const chunk of request) chunks.push(chunk as Buffer);
	const body = JSON.parse(Buffer.concat(chunks).toString() || "{}") as Json;
	const answer =
		request.url === "/tokenize" ? { tokens: promptOf(body), max_model_len: 1_000_000 } : answerTo(body);
	response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
process.send?.({ port: (server.address() as AddressInfo).port });
