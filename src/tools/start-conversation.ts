import { z } from "zod";
import { ConversationRequest } from "../model/conversation.ts";
import { newId } from "../model/id.ts";
import type { Paddock } from "../paddock.ts";
import { conversationShape, toConversationRequest } from "./conversation-request.ts";
import { byShape, Reply, replyOf, waitShape } from "./live.ts";
import { type Tool, tool } from "./tools.ts";

const Arguments = z.strictObject({
	message: z.string().max(1_000_000).nullish().describe("The first thing said to it"),
	...conversationShape,
	...waitShape,
	...byShape,
});

export function startConversation(paddock: Paddock): Tool {
	return tool({
		name: "start_conversation",
		title: "Start a conversation",
		description:
			"Opens a live coding agent in a box of its own and, with message, waits for its answer. Go on with send_message, decide what it asks with answer, end it with close_conversation.",
		input: Arguments,
		output: Reply.extend({ conversation_id: z.string() }),
		isLong: true,
		readOnly: false,
		async run({ message, wait_s, by, ...given }, { signal, door }) {
			const { env, sandbox } = paddock.config;
			const request = ConversationRequest.parse(toConversationRequest(given, { env, sandbox, door }));
			const { id } = await paddock.converse(request, {
				by,
				idempotencyKey: given.idempotency_key ?? undefined,
			});
			if (!message)
				return { conversation_id: id, ...(await replyOf(paddock, id, null, { waitS: 0, signal })) };
			const messageId = newId("msg");
			await paddock.sendMessage(id, { text: message, by, messageId });
			return {
				conversation_id: id,
				...(await replyOf(paddock, id, 0, { messageId, waitS: wait_s, signal })),
			};
		},
	});
}
