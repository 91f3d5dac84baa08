import type { Endpoint } from "../../src/model/endpoint.ts";
import { Task } from "../../src/model/task.ts";

/** A client that talks to the scripted models as an agent and a gateway together would. */

export const TOOLS = ["bash", "edit", "task", "write"].map((name) => ({
	type: "function",
	function: { name, parameters: { type: "object" } },
}));

export function makeTask(fields: Partial<Parameters<typeof Task.parse>[0] & object> = {}): Task {
	return Task.parse({ id: "greet", instruction: "Write a greeting.", ...fields });
}

interface ToolCall {
	id: string;
	type: string;
	function: { name: string; arguments: string };
}

interface WireChunk {
	prompt_token_ids?: number[];
	usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
	choices: {
		delta: {
			role?: string;
			content?: string;
			reasoning?: string;
			tool_calls?: (ToolCall & { index: number })[];
		};
		token_ids?: number[];
		logprobs: {
			content: { token: string; logprob: number; bytes: number[]; top_logprobs: unknown[] }[];
		} | null;
		finish_reason: string | null;
	}[];
}

export interface Heard {
	chunks: WireChunk[];
	text: string;
	reasoning: string;
	calls: ToolCall[];
	promptIds: number[];
	ids: number[];
	logprobs: number[];
	finishReason: string | null;
	usage: WireChunk["usage"];
	lastLine: string;
}

export function post(endpoint: Endpoint, body: object, key = endpoint.apiKey): Promise<Response> {
	return fetch(`${endpoint.baseUrl}/chat/completions`, {
		method: "POST",
		headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
		body: JSON.stringify({ model: endpoint.model, ...body }),
	});
}

export async function ask(endpoint: Endpoint, messages: object[], extra: object = {}): Promise<Heard> {
	const response = await post(endpoint, {
		messages,
		tools: TOOLS,
		stream: true,
		stream_options: { include_usage: true },
		return_token_ids: true,
		logprobs: true,
		top_logprobs: 0,
		...extra,
	});
	if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
	return hear(await response.text());
}

function hear(body: string): Heard {
	const lines = body.split("\n\n").filter((line) => line !== "");
	const chunks = lines.slice(0, -1).map((line) => JSON.parse(line.replace(/^data: /, "")) as WireChunk);
	const choices = chunks.flatMap((chunk) => chunk.choices);
	const calls: ToolCall[] = [];
	for (const part of choices.flatMap((choice) => choice.delta.tool_calls ?? [])) {
		const { index, ...call } = structuredClone(part);
		if (calls[index]) calls[index].function.arguments += part.function.arguments;
		else calls[index] = call;
	}
	return {
		chunks,
		text: choices.map((choice) => choice.delta.content ?? "").join(""),
		reasoning: choices.map((choice) => choice.delta.reasoning ?? "").join(""),
		calls,
		promptIds: chunks.flatMap((chunk) => chunk.prompt_token_ids ?? []),
		ids: choices.flatMap((choice) => choice.token_ids ?? []),
		logprobs: choices.flatMap((choice) => choice.logprobs?.content ?? []).map((entry) => entry.logprob),
		finishReason: choices.find((choice) => choice.finish_reason !== null)?.finish_reason ?? null,
		usage: chunks.at(-1)?.usage,
		lastLine: lines.at(-1) ?? "",
	};
}

/** What an agent keeps of a reply and sends again: reasoning under its other name, arguments printed anew. */
export function replayed(heard: Heard): object {
	return {
		role: "assistant",
		content: heard.text,
		...(heard.reasoning ? { reasoning_content: heard.reasoning } : {}),
		...(heard.calls.length
			? {
					tool_calls: heard.calls.map((call) => ({
						...call,
						function: {
							name: call.function.name,
							arguments: JSON.stringify(JSON.parse(call.function.arguments)),
						},
					})),
				}
			: {}),
	};
}

/** Plays agent: answers every tool call with its name, until the model says something without calling. */
export async function converse(endpoint: Endpoint, opening: object[], extra: object = {}): Promise<Heard[]> {
	const messages = [...opening];
	const heard: Heard[] = [];
	for (;;) {
		const reply = await ask(endpoint, messages, extra);
		heard.push(reply);
		if (reply.calls.length === 0) return heard;
		messages.push(replayed(reply));
		for (const call of reply.calls) {
			messages.push({ role: "tool", tool_call_id: call.id, content: `${call.function.name} did it: ünï 🎉` });
		}
	}
}
