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
		view: z
			.enum(["agent", "model"])
			.describe("Whose history it is: as the agent kept it, or as the model saw and said it"),
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
	view: ChatRow["view"] = "agent",
): AsyncGenerator<ChatRow> {
	const last = new Map<string | null, ModelCall>();
	const seen = new SeenByModel();
	const toRow = (call: ModelCall) =>
		toChatRow(rollout, call, advantage, {
			view,
			messages: view === "agent" ? call.request.messages : seen.by(call),
		});
	for await (const call of calls) {
		if (call.purpose !== "main" && call.purpose !== "subagent") continue;
		if (!call.complete || call.response.message === null) continue;
		if (view === "model") seen.add(call);
		const before = last.get(call.sessionId);
		if (before && !goesOn(before, call)) yield toRow(before);
		last.set(call.sessionId, call);
	}
	for (const call of last.values()) yield toRow(call);
}

/** As many calls as the gateway remembers of a session. */
const MAX_SEEN = 64;

/**
 * What the model had before it, call by call. Where a prompt was put together from the tokens before, that is what the model itself had
 * said, in place of what the agent made of it.
 */
class SeenByModel {
	readonly #calls = new Map<number, { asked: unknown[]; seen: unknown[]; reply: unknown }>();

	add(call: ModelCall): void {
		const { continuity, index, request, response } = call;
		const parent = continuity?.stitched === true ? this.#calls.get(continuity.parent) : undefined;
		const seen =
			parent === undefined
				? request.messages
				: [...parent.seen, parent.reply, ...request.messages.slice(parent.asked.length + 1)];
		this.#calls.set(index, { asked: request.messages, seen, reply: response.message });
		if (this.#calls.size > MAX_SEEN) this.#calls.delete(this.#calls.keys().next().value!);
	}

	by(call: ModelCall): unknown[] {
		return this.#calls.get(call.index)?.seen ?? call.request.messages;
	}
}

/** Everything asked before is asked again; what the agent adds or drops at the end does not make another conversation. */
function goesOn(before: ModelCall, call: ModelCall): boolean {
	const asked = before.request.messages;
	return asked.every(
		(message, index) => index === asked.length - 1 || saysTheSame(message, call.request.messages[index]),
	);
}

function toChatRow(
	rollout: Rollout,
	call: ModelCall,
	advantage: number | null,
	{ view, messages }: Pick<ChatRow, "view" | "messages">,
): ChatRow {
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
		view,
		messages: [...messages, call.response.message],
		tools: call.request.tools,
	};
}
