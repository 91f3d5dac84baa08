import type { ModelCall } from "../../src/model/call.ts";

/** Everything that decides what is sampled, said and neutral, as the gateway sends it. */
export const NEUTRAL = {
	temperature: 1,
	top_p: 1,
	top_k: -1,
	min_p: 0,
	presence_penalty: 0,
	frequency_penalty: 0,
	repetition_penalty: 1,
};

/** A complete main call; say only what the test is about. */
export function aCall(fields: Partial<ModelCall> & { index: number }): ModelCall {
	const completionIds = fields.completionIds ?? [];
	return {
		attempt: 1,
		retryOf: null,
		superseded: false,
		purpose: "main",
		agentName: "build",
		sessionId: "ses_main",
		parentSessionId: null,
		protocol: "chat",
		dialect: "vllm",
		engine: "vllm 0.26.1",
		model: "scripted",
		startedAt: 1_700_000_000_000 + fields.index * 1000,
		firstByteMs: 20,
		lastByteMs: 120,
		request: {
			messages: [{ role: "user", content: "hello" }],
			tools: [],
			params: { model: "scripted", ...NEUTRAL, stream: true },
			patch: { logprobs: true },
		},
		response: { message: { role: "assistant", content: "hi" }, finishReason: "stop" },
		usage: { promptTokens: fields.promptIds?.length ?? 0, completionTokens: completionIds.length },
		promptIds: [],
		completionIds,
		completionTexts: completionIds.map((id) => `t${id}`),
		logprobs: completionIds.map((_, position) => -0.25 * (position + 1)),
		invalidTokens: [],
		complete: true,
		upstreamStatus: 200,
		error: null,
		losses: [],
		...fields,
	};
}

export async function* streamed<T>(items: Iterable<T>): AsyncGenerator<T> {
	yield* items;
}

export async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
	return Array.fromAsync(items);
}
