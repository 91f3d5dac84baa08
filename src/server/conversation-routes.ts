import type { OpenAPIHono } from "@hono/zod-openapi";
import {
	answerConversationPermission,
	answerConversationQuestion,
	closeConversation,
	createConversation,
	getConversation,
	getConversationEvents,
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
import type { Command } from "../model/command.ts";
import { serveEvents } from "./event-routes.ts";
import { download } from "./file-routes.ts";
import { type HttpDoor, known } from "./http-door.ts";
import { mount } from "./mount.ts";
import { ProblemError } from "./problem.ts";
import { oneKey, toLabel } from "./rollout-routes.ts";

/** Live agents. */
export function mountConversations(app: OpenAPIHono, door: HttpDoor): void {
	const { paddock } = door;
	const found = <T>(value: T | null, id: string) => known(value, "conversation", id);

	mount(app, createConversation, async ({ body, headers }) => {
		const { idempotencyKey: keyInBody, by, ...request } = body;
		const idempotencyKey = oneKey(headers["idempotency-key"], keyInBody);
		return await paddock.converse(request, { idempotencyKey, by });
	});

	mount(app, listConversations, ({ query: { status, label, ...page } }) =>
		paddock.conversations({ status, label: toLabel(label) }, page),
	);

	mount(app, getConversation, async ({ params }) => found(await paddock.conversation(params.id), params.id));

	mount(app, getConversationEvents, (call) => {
		const { id } = call.params;
		return serveEvents(door, call, {
			page: async (options) => found(await paddock.conversationEvents(id, options), id),
			follow: (options) => paddock.followConversation(id, options),
			live: (options) => paddock.converseLive(id, options),
		});
	});

	mount(app, getConversationMessages, async ({ params: { id } }) => ({
		conversationId: id,
		...found(await paddock.conversationMessages(id), id),
	}));

	mount(app, getPendingAsks, async ({ params: { id } }) => ({
		items: found(await paddock.pendingAsks(id), id),
	}));

	mount(app, listDeliverables, async ({ params: { id } }) => ({
		items: found(await paddock.deliverables(id), id),
	}));

	mount(app, getDeliverable, async ({ params: { id }, query: { path } }) => {
		found(await paddock.conversation(id), id);
		const bytes = await paddock.deliverable(id, path);
		if (bytes === null) throw new ProblemError(404, "not_found", `conversation ${id} has not delivered that`);
		return download(bytes, "deliverable", "application/octet-stream");
	});

	mount(app, sendToConversation, async ({ params: { id }, body }) => ({
		accepted: true as const,
		...found(await paddock.sendMessage(id, body), id),
	}));

	mount(app, closeConversation, async ({ params: { id } }) => found(await paddock.closeConversation(id), id));

	mount(app, reopenConversation, async ({ params: { id }, body }) =>
		found(await paddock.reopenConversation(id, body), id),
	);

	mountSteering(app, door);
}

function mountSteering(app: OpenAPIHono, door: HttpDoor): void {
	mount(app, interruptConversation, ({ params, body }) =>
		post(door, params.id, { type: "interrupt", ...body }),
	);
	mount(app, setConversationModel, ({ params, body }) => post(door, params.id, { type: "model", ...body }));
	mount(app, answerConversationPermission, ({ params: { id, requestId }, body }) =>
		post(door, id, { type: "permission", requestId, ...body }),
	);
	mount(app, answerConversationQuestion, ({ params: { id, requestId }, body }) =>
		post(door, id, { type: "question", requestId, ...body }),
	);
}

async function post(door: HttpDoor, id: string, command: Command): Promise<{ accepted: true }> {
	known(await door.paddock.conversation(id), "conversation", id);
	await door.paddock.command(id, command);
	return { accepted: true };
}
