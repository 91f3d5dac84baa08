import type { z } from "zod";
import {
	answerConversationPermission,
	answerConversationQuestion,
	type ConversationCreate,
	closeConversation,
	createConversation,
	getConversation,
	getConversationMessages,
	getDeliverable,
	getPendingAsks,
	interruptConversation,
	listConversations,
	listDeliverables,
	reopenConversation,
	sendToConversation,
	setConversationModel,
} from "../api/conversations.ts";
import type { BodyInput, Query } from "../api/route.ts";
import { type FollowOptions, followConversation } from "./events.ts";
import { newKey } from "./key.ts";
import { type ClientOptions, callRoute, type Loose, openRoute } from "./request.ts";
import { type RetryOptions, retried } from "./retry.ts";

/** Live agents: started, talked to, closed, opened again. */
export function conversations(options: ClientOptions) {
	return {
		/** Waits like `submit`; a repeat is harmless. */
		converse(body: z.input<typeof ConversationCreate>, retry: RetryOptions = {}) {
			const { signal } = retry;
			const idempotencyKey = body.idempotencyKey ?? newKey();
			const send = () =>
				callRoute(options, createConversation, { body: { ...body, idempotencyKey }, signal });
			return retried(send, retry);
		},
		conversations: (query: Loose<Query<typeof listConversations>> = {}) =>
			callRoute(options, listConversations, { query }),
		conversation: (id: string) => callRoute(options, getConversation, { params: { id } }),
		/** Live, every event once and in order, until it is closed; reconnects by itself. */
		conversationEvents: (id: string, follow: FollowOptions = {}) => followConversation(options, id, follow),
		conversationMessages: (id: string) => callRoute(options, getConversationMessages, { params: { id } }),
		deliverables: (id: string) => callRoute(options, listDeliverables, { params: { id } }),
		async deliverable(id: string, path: string): Promise<Uint8Array> {
			const response = await openRoute(options, getDeliverable, { params: { id }, query: { path } });
			return new Uint8Array(await response.arrayBuffer());
		},
		pendingAsks: (id: string) => callRoute(options, getPendingAsks, { params: { id } }),
		/** Heard once, however often the line breaks. */
		say(
			id: string,
			text: string,
			message: { messageId?: string; by?: string } = {},
			retry: RetryOptions = {},
		) {
			const body = { text, messageId: newKey(), ...message };
			const send = () =>
				callRoute(options, sendToConversation, { params: { id }, body, signal: retry.signal });
			return retried(send, retry);
		},
		interruptConversation: (id: string, body: BodyInput<typeof interruptConversation> = {}) =>
			callRoute(options, interruptConversation, { params: { id }, body }),
		setModel: (id: string, model: string, by?: string) =>
			callRoute(options, setConversationModel, { params: { id }, body: { model, by } }),
		permit: (id: string, requestId: string, body: BodyInput<typeof answerConversationPermission>) =>
			callRoute(options, answerConversationPermission, { params: { id, requestId }, body }),
		reply: (id: string, requestId: string, body: BodyInput<typeof answerConversationQuestion>) =>
			callRoute(options, answerConversationQuestion, { params: { id, requestId }, body }),
		closeConversation: (id: string) => callRoute(options, closeConversation, { params: { id } }),
		reopenConversation: (id: string, body: BodyInput<typeof reopenConversation> = {}) =>
			callRoute(options, reopenConversation, { params: { id }, body }),
	};
}
