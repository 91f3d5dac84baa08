import { toRules } from "../../conversation/permission-policy.ts";
import type { PermissionRule } from "../../model/permission.ts";
import type { Store } from "../../store/store.ts";
import { type State, unpackState } from "./state.ts";

const PAGE = 1_000;

/** What a worker has to know of a conversation that another one hosted before. */
export interface Past {
	/** Null for one that has never finished a turn, and for one whose agent remembers. */
	state: State | null;
	/** The last that its agent had. */
	sessionId: string | null;
	/** What was said to an agent that has forgotten it, in order. */
	unheard: SaidMessage[];
	/** What was said, as its senders call it. */
	heard: string[];
	/** When it was opened, or opened again; null for one that never was. */
	openedAt: number | null;
	/** What was announced: path and digest. */
	delivered: Map<string, string>;
	/** As its endpoint calls it, where somebody chose one. */
	model: string | null;
	/** What people allowed for always. */
	always: PermissionRule[];
}

export interface SaidMessage {
	text: string;
	by: string;
	messageId: string;
	id: string | undefined;
}

/** The event log and the saved state say together where it stopped. A kept agent remembers by itself what was said to it. */
export async function recall(store: Store, id: string, { isKept = false } = {}): Promise<Past> {
	const saved = await store.lastBlob(id, "state");
	const state = saved === null ? null : await unpackState(saved);
	const known = new Set(state?.session.messages.map(({ info }) => info.id));
	const past: Past = {
		...{ state, sessionId: null, unheard: [], heard: [], openedAt: null },
		...{ delivered: new Map(), model: null, always: [] },
	};
	for (let after = 0; ; ) {
		const events = await store.events(id, { after, limit: PAGE });
		for (const event of events) {
			if (event.type === "conversation-reopen") past.openedAt = null;
			if (event.type === "conversation-start") past.openedAt ??= event.at;
			if (event.type === "session-start") past.sessionId = event.sessionId;
			if (event.type === "turn-end" && isKept) past.unheard = without(past.unheard, event.messageId);
			if (event.type === "deliverable") past.delivered.set(event.path, event.sha256);
			if (event.type === "model-set") past.model = event.model;
			if (event.type === "permission-always") past.always.push(...toRules(event.permission, event.patterns));
			// Whoever interrupted it wants none of that again.
			if (event.type === "interrupted" || event.type === "conversation-end") past.unheard = [];
			if (event.type !== "message-sent" || event.messageId === undefined) continue;
			const { text, by, messageId, id: name } = event;
			if (name !== undefined) past.heard.push(name);
			past.unheard = without(past.unheard, messageId);
			if (!known.has(messageId)) past.unheard.push({ text, by, messageId, id: name });
		}
		after = events.at(-1)?.seq ?? after;
		if (events.length < PAGE) return past;
	}
}

function without(messages: SaidMessage[], messageId: string): SaidMessage[] {
	return messages.filter((message) => message.messageId !== messageId);
}
