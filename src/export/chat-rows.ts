import { z } from "zod";
import type { ModelCall } from "../model/call.ts";
import type { Rollout } from "../model/rollout.ts";
import { saysTheSame } from "./breaks.ts";

/** One conversation for supervised fine-tuning: messages and tools, no tokens. */
export const ChatRow = z
	.strictObject({
		rollout_id: z.string(),
		task_id: z.string(),
		group_id: z.string().nullable(),
		reward: z.number().nullable(),
		advantage: z.number().nullable(),
		purpose: z.string(),
		session_id: z.string().nullable(),
		protocol: z.string().describe("The spelling of the messages: chat, responses or messages"),
		model: z.string().nullable(),
		messages: z.array(z.unknown()).describe("The last request of the conversation, and its reply"),
		tools: z.array(z.unknown()),
	})
	.meta({ id: "ChatRow" });
export type ChatRow = z.infer<typeof ChatRow>;

/**
 * One row for each conversation of main agent and sub-agents. When the agent rewrites its history (compaction), what
 * was said until then is a row of its own.
 */
export async function* chatRows(
	rollout: Rollout,
	calls: AsyncIterable<ModelCall>,
	advantage: number | null,
): AsyncGenerator<ChatRow> {
	const last = new Map<string | null, ModelCall>();
	for await (const call of calls) {
		if (call.purpose !== "main" && call.purpose !== "subagent") continue;
		if (!call.complete || call.response.message === null) continue;
		const before = last.get(call.sessionId);
		if (before && !goesOn(before, call)) yield toChatRow(rollout, before, advantage);
		last.set(call.sessionId, call);
	}
	for (const call of last.values()) yield toChatRow(rollout, call, advantage);
}

/** Everything asked before is asked again; what the agent adds or drops at the end does not make another conversation. */
function goesOn(before: ModelCall, call: ModelCall): boolean {
	const asked = before.request.messages;
	return asked.every(
		(message, index) => index === asked.length - 1 || saysTheSame(message, call.request.messages[index]),
	);
}

function toChatRow(rollout: Rollout, call: ModelCall, advantage: number | null): ChatRow {
	return {
		rollout_id: rollout.id,
		task_id: rollout.taskId,
		group_id: rollout.groupId,
		reward: rollout.reward,
		advantage,
		purpose: call.purpose,
		session_id: call.sessionId,
		protocol: call.protocol,
		model: call.model,
		messages: [...call.request.messages, call.response.message],
		tools: call.request.tools,
	};
}
