import type { ModelCall } from "../model/call.ts";
import type { Rollout } from "../model/rollout.ts";
import { toProxyTurn, toWireUsage } from "./result.ts";

/** One record for each call, as OpenEnv's proxy_trace.jsonl has it and TRL's harness worker reads it. */
export async function* proxyTraceRecords(rollout: Rollout, calls: AsyncIterable<ModelCall>) {
	for await (const call of calls) yield toProxyTraceRecord(rollout, call);
}

function toProxyTraceRecord(rollout: Rollout, call: ModelCall) {
	const turn = toProxyTurn(call);
	return {
		rollout_id: rollout.id,
		task_id: rollout.taskId,
		reward: rollout.reward,
		turn: turn.turn,
		purpose: turn.purpose,
		session_id: turn.session_id,
		parent_session_id: turn.parent_session_id,
		complete: call.complete,
		superseded: call.superseded,
		request: turn.request,
		response: call.response.message ? toChatCompletion(call) : toErrorResponse(call),
		logprobs: turn.completion_tokens.map((token, position) => ({
			token,
			logprob: turn.per_token_logps[position]!,
			...(call.alternatives ? { top_logprobs: call.alternatives[position] ?? [] } : {}),
		})),
		prompt_token_ids: turn.prompt_token_ids,
		completion_tokens: turn.completion_tokens,
		completion_token_ids: turn.completion_token_ids,
		per_token_logps: turn.per_token_logps,
		finish_reason: turn.finish_reason,
		latency_s: turn.latency_s,
		timestamp: turn.timestamp,
	};
}

function toChatCompletion(call: ModelCall) {
	return {
		id: `chatcmpl-${call.attempt}-${call.index}`,
		object: "chat.completion",
		created: Math.floor(call.startedAt / 1000),
		model: call.model,
		choices: [{ index: 0, message: call.response.message, finish_reason: call.response.finishReason }],
		usage: toWireUsage(call),
	};
}

function toErrorResponse(call: ModelCall) {
	return {
		choices: [],
		usage: toWireUsage(call),
		upstream_status: call.upstreamStatus,
		upstream_error: call.error && { ...call.error },
	};
}
