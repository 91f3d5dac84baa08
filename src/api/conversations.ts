import { z } from "zod";
import {
	ConversationEvent,
	ConversationRequest,
	ConversationRow,
	ConversationState,
	Deliverable,
} from "../model/conversation.ts";
import {
	Accepted,
	by,
	InterruptBody,
	MessageBody,
	PermissionBody,
	QuestionBody,
	requestId,
} from "./commands.ts";
import { CREATING, IdempotencyHeaders, IdempotencyKey } from "./rollouts.ts";
import { API, IdParams, PageQuery, pageOf, route } from "./route.ts";
import { EventHeaders, EventQuery, liveWish, Messages, SSE, STREAMED } from "./trace.ts";

const tag = "conversations";
const NOT_FOUND = { 404: "No conversation has this id" };
const refusals = { ...NOT_FOUND, 409: "The conversation is closed" };
const path = `${API}/conversations`;

export const ConversationCreate = ConversationRequest.safeExtend({
	by,
	idempotencyKey: IdempotencyKey.optional(),
}).meta({ id: "ConversationCreate" });

export const createConversation = route({
	name: "createConversation",
	method: "post",
	path,
	tag,
	summary: "Store and queue a live agent; it hears what is said to it once a worker has opened it",
	headers: IdempotencyHeaders,
	body: ConversationCreate,
	status: 201,
	reply: ConversationRow,
	refusals: CREATING,
});

export const listConversations = route({
	name: "listConversations",
	method: "get",
	path,
	tag,
	summary: "Page through conversations, the newest first",
	query: PageQuery.extend({
		status: ConversationState.optional(),
		label: z
			.string()
			.max(601)
			.regex(/^[^=]{1,100}=/)
			.optional()
			.describe("name=value"),
	}),
	reply: pageOf(ConversationRow),
	refusals: { 400: "The cursor is not one of ours" },
});

export const getConversation = route({
	name: "getConversation",
	method: "get",
	path: `${path}/{id}`,
	tag,
	summary: "One conversation as it stands",
	params: IdParams,
	reply: ConversationRow,
	refusals: NOT_FOUND,
});

export const ConversationEventPage = z
	.object({
		items: z.array(ConversationEvent),
		next: z.int().describe("Hand it back as `after`"),
		done: z.boolean().describe("It is closed, and these are the last"),
	})
	.meta({ id: "ConversationEventPage" });

export const getConversationEvents = route({
	name: "getConversationEvents",
	method: "get",
	path: `${path}/{id}/events`,
	tag,
	summary:
		"What happened, in order. With `Accept: text/event-stream` live until it is closed, resuming after `Last-Event-ID`; otherwise a page, waiting up to wait_s for the first event",
	params: IdParams,
	query: EventQuery.extend({ live: liveWish("true") }),
	headers: EventHeaders,
	reply: ConversationEventPage,
	media: {
		[SSE]:
			"`id` is the sequence number, `data` a ConversationEvent; comments keep the line alive. Unless live=false also LiveText, whose `id` says how much of each text you have",
	},
	empty: "It is closed and there are no events after that one: do not come back for more",
	refusals: { ...NOT_FOUND, ...STREAMED },
});

export const getConversationMessages = route({
	name: "getConversationMessages",
	method: "get",
	path: `${path}/{id}/messages`,
	tag,
	summary: "What was said, in OpenCode's own message shape",
	params: IdParams,
	reply: Messages.omit({ rolloutId: true }).extend({ conversationId: z.string() }),
	refusals: NOT_FOUND,
});

export const sendToConversation = route({
	name: "sendToConversation",
	method: "post",
	path: `${path}/{id}/messages`,
	tag,
	summary: "Say something; while the agent works, it steers",
	params: IdParams,
	body: MessageBody,
	reply: z.object({ accepted: z.literal(true), messageId: z.string() }).meta({ id: "MessageAccepted" }),
	refusals,
});

export const interruptConversation = route({
	name: "interruptConversation",
	method: "post",
	path: `${path}/{id}/interrupt`,
	tag,
	summary: "Stop what the agent is doing; with a text it goes on from there",
	params: IdParams,
	body: InterruptBody,
	reply: Accepted,
	refusals,
});

export const setConversationModel = route({
	name: "setConversationModel",
	method: "post",
	path: `${path}/{id}/model`,
	tag,
	summary: "Choose the model for what follows, as its endpoint calls it",
	params: IdParams,
	body: z
		.strictObject({
			model: z.string().min(1).max(500),
			by,
		})
		.meta({ id: "ModelChoice" }),
	reply: Accepted,
	refusals,
});

export const listDeliverables = route({
	name: "listDeliverables",
	method: "get",
	path: `${path}/{id}/deliverables`,
	tag,
	summary: "The declared files that have appeared in the workdir",
	params: IdParams,
	reply: z.object({ items: z.array(Deliverable) }).meta({ id: "Deliverables" }),
	refusals: NOT_FOUND,
});

export const getDeliverable = route({
	name: "getDeliverable",
	method: "get",
	path: `${path}/{id}/deliverable`,
	tag,
	summary: "One of them, as it was kept last",
	params: IdParams,
	query: z.object({ path: z.string().min(1).max(4096).describe("As in the list of them") }),
	media: { "application/octet-stream": "The bytes" },
	refusals: { 404: "No such conversation, or no such file was delivered" },
});

export const getPendingAsks = route({
	name: "getPendingAsks",
	method: "get",
	path: `${path}/{id}/pending`,
	tag,
	summary: "The permission requests and questions that wait for somebody, as their events",
	params: IdParams,
	reply: z.object({ items: z.array(ConversationEvent) }).meta({ id: "PendingAsks" }),
	refusals: NOT_FOUND,
});

export const answerConversationPermission = route({
	name: "answerConversationPermission",
	method: "post",
	path: `${path}/{id}/permissions/{requestId}`,
	tag,
	summary: "Answer a permission request",
	params: IdParams.extend({ requestId }),
	body: PermissionBody,
	reply: Accepted,
	refusals,
});

export const answerConversationQuestion = route({
	name: "answerConversationQuestion",
	method: "post",
	path: `${path}/{id}/questions/{requestId}`,
	tag,
	summary: "Answer a question the agent asked; null declines",
	params: IdParams.extend({ requestId }),
	body: QuestionBody,
	reply: Accepted,
	refusals,
});

export const closeConversation = route({
	name: "closeConversation",
	method: "post",
	path: `${path}/{id}/close`,
	tag,
	summary: "Close it; its history is kept, and it can be opened again",
	params: IdParams,
	reply: ConversationRow,
	refusals: NOT_FOUND,
});

export const reopenConversation = route({
	name: "reopenConversation",
	method: "post",
	path: `${path}/{id}/reopen`,
	tag,
	summary: "Queue a closed conversation again, to go on with its history and its files",
	params: IdParams,
	body: z
		.strictObject({
			apiKey: z
				.string()
				.min(1)
				.max(10_000)
				.optional()
				.describe("Needed where it came with one: keys are erased at the close"),
			by,
		})
		.meta({ id: "ConversationReopen" }),
	reply: ConversationRow,
	refusals: { ...NOT_FOUND, 409: "It is not closed", 429: CREATING[429] },
});
