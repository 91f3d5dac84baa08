import { expect } from "vitest";
import { SampleBuilder } from "../../src/export/samples.ts";
import { openGateway } from "../../src/gateway/agent-side/server.ts";
import type { ModelCall } from "../../src/model/call.ts";
import type { Endpoint } from "../../src/model/endpoint.ts";
import { Sampling } from "../../src/model/request.ts";
import { Budget } from "../../src/model/task.ts";
import {
	type Json,
	type Message,
	openTemplateEngine,
	type TemplateEngine,
} from "../fakes/template-engine.ts";

export const TOOLS = [{ type: "function", function: { name: "bash", parameters: { type: "object" } } }];
export const SYSTEM: Message = { role: "system", content: "You code." };
export const ASK: Message = { role: "user", content: "Solve it." };

/** Whose request it is, as the agent's headers say. */
interface Sender {
	session?: string;
	parent?: string;
	agent?: string;
	signal?: AbortSignal;
}

/** A gateway, and an engine with a template of the test's. */
export async function openStitching() {
	const gateway = await openGateway();
	const url = await gateway.listen("127.0.0.1", 0);
	const engine = await openTemplateEngine();
	return {
		engine,
		openAgent: (sampling: Json = {}, { captures = true, endpoint = {} as Partial<Endpoint> } = {}) =>
			openAgent(gateway, url, engine, sampling, captures, endpoint),
		async [Symbol.asyncDispose]() {
			await engine[Symbol.asyncDispose]();
			await gateway[Symbol.asyncDispose]();
		},
	};
}

/** An agent on one tap: what it sends, and what was captured. */
function openAgent(
	gateway: Awaited<ReturnType<typeof openGateway>>,
	url: string,
	engine: TemplateEngine,
	sampling: Json,
	captures: boolean,
	endpoint: Partial<Endpoint>,
) {
	const calls: ModelCall[] = [];
	const tap = gateway.openTap({
		rolloutId: "ro_1",
		attempt: 1,
		boxId: "box",
		overTcp: true,
		endpoint: {
			name: "fake",
			baseUrl: engine.baseUrl,
			model: "m",
			dialect: engine.dialect,
			disableThinking: false,
			...endpoint,
		},
		sampling: Sampling.parse(sampling),
		budget: Budget.parse({}),
		...(captures ? { sink: { write: async (call) => void calls.push(call) } } : {}),
	});
	const post = (messages: Message[], extra: Json = {}, sender: Sender = {}) => {
		const { session = "ses_1", parent, agent, signal } = sender;
		return fetch(`${url}/chat/completions`, {
			method: "POST",
			headers: {
				authorization: `Bearer ${tap.key}`,
				"content-type": "application/json",
				"x-session-id": session,
				...(parent === undefined ? {} : { "x-parent-session-id": parent }),
				...(agent === undefined ? {} : { "x-paddock-agent": agent }),
			},
			signal: signal ?? null,
			body: JSON.stringify({ model: "m", messages, tools: TOOLS, ...extra }),
		});
	};
	return {
		calls,
		post,
		async send(messages: Message[], extra: Json = {}, sender: Sender = {}): Promise<Message> {
			const response = await post(messages, extra, sender);
			const body = (await response.json()) as { choices?: { message: Message }[] };
			if (body.choices === undefined) throw new Error(JSON.stringify(body));
			return body.choices[0]!.message;
		},
		[Symbol.asyncDispose]: () => tap[Symbol.asyncDispose](),
	};
}

export const call = (id: string, args: string, name = "bash") => ({
	id,
	type: "function",
	function: { name, arguments: args },
});
export const result = (id: string, content = "ok"): Message => ({ role: "tool", tool_call_id: id, content });
/** One call, spelled as a model might: a newline before it, odd spacing inside. */
export const oddCall = (id: string) => ({
	raw: `I look.\n\n<|call|>{"name":  "bash", "arguments": {"command": "ls"}}<|im_end|>`,
	message: { role: "assistant", content: "I look.\n\n", tool_calls: [call(id, '{"command":  "ls"}')] },
});
export const done = { raw: "Done.<|im_end|>", message: { role: "assistant", content: "Done." } };

/** As OpenCode keeps it: text trimmed, arguments printed anew. */
export function kept(reply: Message): Message {
	const calls = (reply.tool_calls ?? []) as { id: string; function: { name: string; arguments: string } }[];
	return {
		role: "assistant",
		content: String(reply.content ?? "").trim(),
		...(calls.length === 0
			? {}
			: {
					tool_calls: calls.map(({ id, function: { name, arguments: args } }) =>
						call(id, JSON.stringify(JSON.parse(args)), name),
					),
				}),
	};
}

export function samplesOf(calls: ModelCall[]) {
	const builder = new SampleBuilder();
	return [...calls.flatMap((each) => builder.add(each)), ...builder.finish().samples];
}

/** Whatever is marked stitched starts with all that its parent saw and said. */
export function expectChains(calls: ModelCall[]): void {
	for (const each of calls) {
		if (each.continuity?.stitched !== true) continue;
		const { parent, added } = each.continuity;
		const before = calls.find((other) => other.index === parent)!;
		const whole = [...before.promptIds, ...before.completionIds];
		expect(each.promptIds.slice(0, whole.length)).toEqual(whole);
		expect(each.promptIds).toHaveLength(whole.length + added);
	}
}
