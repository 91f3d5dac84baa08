import { z } from "zod";
import { UsageError } from "../errors.ts";
import type { Command } from "../model/command.ts";
import { newId } from "../model/id.ts";
import type { Paddock } from "../paddock.ts";
import { byShape, cursorOf, liveId, liveShape, Reply, replyOf, waitShape } from "./live.ts";
import { type Tool, tool } from "./tools.ts";

const common = { output: Reply, isLong: true, readOnly: false } as const;

export function sendMessage(paddock: Paddock): Tool {
	return tool({
		...common,
		name: "send_message",
		title: "Say something to a live agent",
		description:
			"To a conversation: waits for the answer, or for what the agent asks. To a running rollout: the agent takes it up while it works.",
		input: z.strictObject({
			...liveShape,
			text: z.string().min(1).max(1_000_000).describe("What is said"),
			message_id: z
				.string()
				.min(1)
				.max(200)
				.nullish()
				.describe("Said once, however often it is sent under one name"),
			...waitShape,
			...byShape,
		}),
		async run({ text, by, message_id, wait_s, ...given }, { signal }) {
			const id = liveId(given);
			const after = await cursorOf(paddock, id);
			const messageId = message_id ?? newId("msg");
			await post(paddock, id, { type: "send", text, by, id: messageId });
			return await replyOf(paddock, id, after, { messageId, waitS: wait_s, signal });
		},
	});
}

export function answer(paddock: Paddock): Tool {
	return tool({
		...common,
		name: "answer",
		title: "Decide what a live agent asks",
		description:
			"A permission: reply once, always or reject, with a message that the model reads. A question: answers, one list of labels for each; null declines. Then waits as send_message does.",
		input: z.strictObject({
			...liveShape,
			request_id: z
				.string()
				.regex(/^[A-Za-z0-9_.-]{1,200}$/)
				.describe("requestId of the ask"),
			reply: z.enum(["once", "always", "reject"]).nullish().describe("Of a permission"),
			message: z.string().max(10_000).nullish().describe("Why not; the model reads it"),
			answers: z
				.array(z.array(z.string().max(10_000)).max(100))
				.max(100)
				.nullish()
				.describe("Of a question"),
			...waitShape,
			...byShape,
		}),
		async run({ request_id: requestId, reply, message, answers, by, wait_s, ...given }, { signal }) {
			const id = liveId(given);
			const after = await cursorOf(paddock, id);
			const command: Command = reply
				? { type: "permission", requestId, reply, by, ...(message ? { message } : {}) }
				: { type: "question", requestId, answers: answers ?? null, by };
			await post(paddock, id, command);
			return await replyOf(paddock, id, after, { waitS: wait_s, signal });
		},
	});
}

export function interrupt(paddock: Paddock): Tool {
	return tool({
		...common,
		name: "interrupt",
		title: "Stop what a live agent is doing",
		description:
			"Its turn, its tools and its asks stop. With text it goes on from there; a rollout without one is over.",
		input: z.strictObject({
			...liveShape,
			text: z.string().min(1).max(1_000_000).nullish().describe("How to go on"),
			...waitShape,
			...byShape,
		}),
		async run({ text, by, wait_s, ...given }, { signal }) {
			const id = liveId(given);
			const after = await cursorOf(paddock, id);
			await post(paddock, id, { type: "interrupt", by, ...(text ? { text } : {}) });
			return await replyOf(paddock, id, after, { waitS: wait_s, signal });
		},
	});
}

export function closeConversation(paddock: Paddock): Tool {
	return tool({
		name: "close_conversation",
		title: "Close a conversation",
		description: "Ends it; what was said and what it wrote is kept, and it can be opened again over HTTP.",
		input: z.strictObject({
			conversation_id: z.string().min(1).max(120).describe("As start_conversation returned it"),
		}),
		output: z.object({ conversation_id: z.string(), status: z.string() }),
		isLong: false,
		readOnly: false,
		async run({ conversation_id }) {
			const row = await paddock.closeConversation(conversation_id);
			if (row === null) throw unknown(conversation_id);
			return { conversation_id, status: row.status };
		},
	});
}

async function post(paddock: Paddock, id: string, command: Command): Promise<void> {
	if (!(await paddock.command(id, command))) throw unknown(id);
}

function unknown(id: string): UsageError {
	return new UsageError(`no conversation and no rollout has the id ${id.slice(0, 120)}`, "not_found");
}
