import type { Dispatcher } from "undici";
import type { Endpoint } from "../../model/endpoint.ts";
import { chat } from "../protocols/openai-chat.ts";
import { isObject, type JsonObject, toArray } from "../protocols/protocol.ts";
import { faultOfStatus, type UpstreamFault } from "../upstream/fault.ts";

/** An endpoint is anybody's: what it answers must fit. */
const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

/** A request of our own, like an agent's: no word in it can be taken for the name of a field. */
export function toQuestion(like: JsonObject): JsonObject {
	return {
		messages: [{ role: "user", content: "Say a word." }],
		max_tokens: 1,
		...(like.stream === true ? { stream: true } : {}),
		...(toArray(like.tools).length > 0 ? { tools: TOOLS } : {}),
	};
}

const TOOLS = [
	{
		type: "function",
		function: { name: "look", description: "Looks.", parameters: { type: "object", properties: {} } },
	},
];

export interface Questioner {
	endpoint: Endpoint;
	dispatcher: Dispatcher;
	/** All questions together must be answered before it. */
	signal: AbortSignal;
}

/** Resolves to the answer (null for a stream), or to the fault the endpoint found; rejects when it is away. */
export async function ask(
	{ endpoint, dispatcher, signal }: Questioner,
	question: JsonObject,
): Promise<{ answer: JsonObject | null } | { fault: UpstreamFault }> {
	const url = new URL(endpoint.baseUrl);
	const key = endpoint.tokens ? await endpoint.tokens.fresh() : endpoint.apiKey;
	const { statusCode, body } = await dispatcher.request({
		origin: url.origin,
		path: `${url.pathname.replace(/\/+$/, "")}${chat.path}`,
		method: "POST",
		headers: {
			"content-type": "application/json",
			...(key === undefined ? {} : chat.toCredentials(key, url.hostname)),
		},
		body: JSON.stringify({ ...question, model: endpoint.model }),
		signal,
	});
	const text = await readAtMost(body, MAX_ANSWER_BYTES);
	if (statusCode !== 200) return { fault: faultOfStatus(statusCode, text, null).without(key) };
	if (question.stream === true) return { answer: null };
	const answer: unknown = JSON.parse(text);
	if (!isObject(answer)) throw new Error("the answer is no object");
	return { answer };
}

export async function readAtMost(body: AsyncIterable<Buffer>, maxBytes: number): Promise<string> {
	const chunks: Buffer[] = [];
	let size = 0;
	for await (const chunk of body) {
		size += chunk.length;
		if (size > maxBytes) throw new Error(`the endpoint's answer is longer than ${maxBytes} bytes`);
		chunks.push(chunk);
	}
	return Buffer.concat(chunks).toString("utf8");
}
