import { join } from "node:path";
import type { Config } from "../config.ts";
import { UsageError } from "../errors.ts";
import type { Live } from "../live/live.ts";
import { readLive } from "../live/reading.ts";
import { deliverableBlob } from "../model/blob.ts";
import {
	type ConversationEvent,
	type ConversationRequest,
	type Deliverable,
	toRequest,
} from "../model/conversation.ts";
import { untilTimeout } from "../model/duration.ts";
import type { RolloutEvent } from "../model/event.ts";
import { newConversationId, newId } from "../model/id.ts";
import type { Queue } from "../queue/queue.ts";
import { follow } from "../store/follow.ts";
import type { Store } from "../store/store.ts";
import type { Admission } from "./admission.ts";
import { requireCredentials } from "./credentials.ts";
import { findKept, requireConsent } from "./kept-conversation.ts";
import { requireAcceptable } from "./request-rules.ts";
import { requireSpeaker } from "./speaker.ts";
import { isStorable, requireStorable } from "./storable-text.ts";
import { transcriptOf } from "./trace.ts";
import type { Conversing } from "./verbs.ts";

const PAGE = 1_000;

/** Live agents that are stored and queued like rollouts, and hosted by the same workers. */
export function conversing(
	config: Config,
	store: Store,
	live: Live,
	queue: Queue,
	admission: Admission,
): Conversing {
	const find = async (id: string) => (isStorable(id) ? await store.conversation(id) : null);

	async function enqueue(id: string, priority: number): Promise<void> {
		await queue.enqueue([{ rolloutId: id, priority }]);
	}

	return {
		async converse(asked, { idempotencyKey, by = "caller", isOwner = false } = {}) {
			requireStorable({ asked, idempotencyKey, by }, "request");
			requireSpeaker(by);
			requireTalkative(asked);
			const agent = await findKept(asked, store, config);
			const { request, terms } = toRequest(asked, agent?.endpoint);
			// On many machines nobody knows whose folder a path will be. To an agent without walls all of them are open.
			const isOwnFolder = agent !== null || (isOwner && config.databaseUrl === null);
			if (!isOwnFolder) requireFolder(asked, config);
			if (agent === null) requireAcceptable(request, config);
			const { endpoint } = request;
			const opening = asked.text === undefined ? undefined : { text: asked.text, by };
			const keyed = "apiKey" in endpoint && endpoint.apiKey !== undefined;
			const stored = {
				id: newConversationId(),
				request: { ...request, conversation: { ...terms, keyed, isOwnFolder, opening } },
			};
			if (agent === null) await requireCredentials([stored.request], store, config.env);
			const row = await admission.admit(1, idempotencyKey, async () => {
				const { rollouts } = await store.submit({ rollouts: [stored], idempotencyKey });
				const { id, status, priority } = rollouts[0]!;
				if (status !== "done") await enqueue(id, priority);
				return (await store.conversation(id))!;
			});
			return row;
		},
		conversation: find,
		async conversations({ status, label }, page) {
			requireStorable(label, "filter");
			const stored = status && ({ queued: "queued", open: "running", closed: "done" } as const)[status];
			return await store.conversations({ status: stored, label }, page);
		},
		async *followConversation(id, options) {
			if ((await find(id)) === null) return;
			for await (const event of follow(store, id, options)) yield toTold(event);
		},
		async *converseLive(id, options) {
			if ((await find(id)) === null) return;
			for await (const read of readLive(follow(store, id, options), live, id, options))
				yield "event" in read ? { ...read, event: toTold(read.event) } : read;
		},
		async conversationEvents(id, { after, limit, waitMs = 0, signal }) {
			if ((await find(id)) === null) return null;
			if (waitMs > 0) {
				const until = untilTimeout(waitMs, signal);
				for await (const _first of follow(store, id, { after, signal: until })) break;
			}
			// Asked before the events are read: whatever is over by now has all its events.
			const isOver = (await find(id))?.status === "closed";
			const items = (await store.events(id, { after, limit })).map(toTold);
			return { items, next: items.at(-1)?.seq ?? after, done: isOver && items.length < limit };
		},
		async conversationMessages(id) {
			const found = await find(id);
			return found && (await transcriptOf(store, found));
		},
		async deliverables(id) {
			return (await find(id)) === null ? null : await deliverablesOf(store, id);
		},
		async deliverable(id, path) {
			if ((await find(id)) === null || !isStorable(path)) return null;
			return await store.lastBlob(id, deliverableBlob(path));
		},
		async pendingAsks(id) {
			const found = await find(id);
			return found && (found.status === "closed" ? [] : await asksOf(store, id));
		},
		async sendMessage(id, { text, by = "caller", messageId = newId("msg") }) {
			requireStorable({ text, by, messageId }, "message");
			requireSpeaker(by);
			const found = await find(id);
			if (found === null) return null;
			requireConsent(found, config);
			if (!(await store.post(id, { type: "send", text, by, id: messageId }))) throw closed(id);
			return { messageId };
		},
		async closeConversation(id) {
			if ((await find(id)) === null) return null;
			await store.requestAbort({ id });
			await queue.cancel([id]);
			return await find(id);
		},
		async reopenConversation(id, { by = "caller", apiKey } = {}) {
			requireStorable({ by, apiKey }, "request");
			requireSpeaker(by);
			const found = await find(id);
			if (found === null) return null;
			requireConsent(found, config);
			const whole = (await store.get(id))!;
			if (whole.request.conversation?.keyed && apiKey === undefined)
				throw new UsageError(
					"its key was erased when it was closed: send it again as apiKey",
					"api_key_needed",
				);
			return await admission.admit(1, undefined, async () => {
				if (!(await store.reopen(id, { by, apiKey })))
					throw new UsageError(`conversation ${id} is not closed`, "conversation_open");
				await enqueue(id, found.priority);
				return (await find(id))!;
			});
		},
	};
}

export function closed(id: string): UsageError {
	return new UsageError(
		`conversation ${id} is closed: open it again, or start another`,
		"conversation_closed",
	);
}

/** One driver alone keeps an agent open. */
function requireTalkative({ agent }: ConversationRequest): void {
	if (agent.driver === "serve") return;
	throw new UsageError("the driver run ends with each prompt: a conversation needs serve", "driver_refused");
}

/** Says no before anything is stored. The worker looks again, with all links followed. */
function requireFolder({ folder, sandbox }: ConversationRequest, { folders }: Config): void {
	if (folder === undefined) return;
	const isAllowed = folders.some((one) => join(folder, "/").startsWith(join(one, "/")));
	if (!isAllowed)
		throw new UsageError(
			"the folder is not allowed here: the operator names those that are in PADDOCK_FOLDERS",
			"folder_refused",
		);
	if (sandbox !== "local" && sandbox !== "docker")
		throw new UsageError(
			`the ${sandbox} sandbox cannot work in a folder: use local or docker`,
			"folder_unsupported",
		);
}

function toTold({ rolloutId, ...event }: RolloutEvent): ConversationEvent {
	return { conversationId: rolloutId, ...event };
}

/** Each as it was announced last, in the order in which they appeared. */
async function deliverablesOf(store: Store, id: string): Promise<Deliverable[]> {
	const found = new Map<string, Deliverable>();
	for (let after = 0; ; ) {
		const events = await store.events(id, { after, limit: PAGE });
		for (const event of events) {
			if (event.type !== "deliverable") continue;
			const { path, sizeBytes, sha256, at } = event;
			found.set(path, { path, sizeBytes, sha256, at });
		}
		after = events.at(-1)?.seq ?? after;
		if (events.length < PAGE) return [...found.values()];
	}
}

/** What was asked and not decided yet, by the worker that has it now. */
async function asksOf(store: Store, id: string): Promise<ConversationEvent[]> {
	const asks = new Map<string, ConversationEvent>();
	for (let after = 0; ; ) {
		const events = await store.events(id, { after, limit: PAGE });
		for (const event of events) {
			if (event.type === "conversation-start") asks.clear();
			if (event.type === "permission-ask" || event.type === "question-ask")
				asks.set(event.requestId, toTold(event));
			if (event.type === "permission-end" || event.type === "question-end") asks.delete(event.requestId);
		}
		after = events.at(-1)?.seq ?? after;
		if (events.length < PAGE) return [...asks.values()];
	}
}
