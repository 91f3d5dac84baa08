import type {
	AgentMessage,
	AgentTrouble,
	AssistantMessage,
	ConversationStatus,
	TextPiece,
} from "../agent.ts";
import { isAgentId, isRecord } from "./client.ts";
import { RecentSet } from "./recent.ts";
import { type PartPlace, TextStream } from "./text-stream.ts";

export interface MirrorListener {
	onText(piece: TextPiece): void;
	/** Once for every finished assistant message of the root that says something or failed. */
	onMessage(message: AssistantMessage): void;
	/** Once for every finished assistant message of the root, also when it only used tools. */
	onAnswered(message: AssistantMessage): void;
	onStatus(sessionId: string, status: ConversationStatus): void;
	onTrouble(trouble: AgentTrouble): void;
}

/** An assistant message being written: its parts in order, those after the last step-start. */
type Draft = Map<string, { type: string; text: string }>;

const IDLE: ConversationStatus = { type: "idle" };
const MAX_DRAFTS = 100;

/**
 * Our view of the root session and its descendants. Events change it; after a gap it is replaced by what the server says, and until
 * then no message is delivered, so that each is delivered once and in order.
 */
export class SessionMirror {
	readonly #listener: MirrorListener;
	readonly #texts: TextStream;
	readonly #owned = new Set<string>();
	readonly #foreign = new RecentSet(1_000);
	/** Of every session of the directory; idle ones are absent. */
	readonly #statuses = new Map<string, ConversationStatus>();
	readonly #drafts = new Map<string, Draft>();
	/** Finished messages whose parts may still be under way. */
	readonly #finished = new Map<string, Record<string, unknown>>();
	readonly #delivered = new RecentSet();
	#root: string | null = null;
	#inSync = false;
	/** Grows with every status that was told: an answer that was asked for before may be older. */
	#told = 0;

	constructor(listener: MirrorListener) {
		this.#listener = listener;
		this.#texts = new TextStream((piece) => listener.onText(piece));
	}

	get root(): string | null {
		return this.#root;
	}

	/** A session made just now has nothing that could have been missed. */
	setRoot(id: string, isNew: boolean): void {
		this.#root = id;
		this.#owned.add(id);
		this.#inSync = isNew;
	}

	/** Undefined when nobody has said yet whose it is. */
	owns(sessionId: string): boolean | undefined {
		if (this.#owned.has(sessionId)) return true;
		return this.#foreign.has(sessionId) ? false : undefined;
	}

	get told(): number {
		return this.#told;
	}

	disown(sessionId: string): void {
		this.#foreign.add(sessionId);
	}

	adopt(sessionId: string): void {
		this.#owned.add(sessionId);
		this.#foreign.delete(sessionId);
	}

	status(sessionId: string | null = this.#root): ConversationStatus {
		return (sessionId === null ? undefined : this.#statuses.get(sessionId)) ?? IDLE;
	}

	/** A new connection: what was missed is not known yet. */
	gap(): void {
		if (this.#root !== null) this.#inSync = false;
		this.#texts.gap();
	}

	apply(type: string, properties: Record<string, unknown>): void {
		const info = isRecord(properties.info) ? properties.info : {};
		if (type === "session.created" || type === "session.updated") this.#noteParent(info);
		if (type === "session.status") this.#noteStatus(properties);
		if (type === "session.error") this.#noteTrouble(properties);
		if (type === "message.updated") this.#noteMessage(info);
		if (type === "message.removed") this.#drafts.delete(String(properties.messageID));
		if (type === "message.part.updated" && isRecord(properties.part)) this.#notePart(properties.part);
		if (type === "message.part.delta") this.#noteDelta(properties);
	}

	/** What the server says now takes the place of what we thought. `history` is the end of the root's, oldest first. */
	reconcile(server: { owned: string[]; statuses: Record<string, unknown>; history: AgentMessage[] }): void {
		for (const id of server.owned) this.adopt(id);
		this.#drafts.clear();
		this.#finished.clear();
		for (const { info, parts } of server.history) this.#noteStored(info, parts);
		this.#inSync = true;
		this.reconcileStatuses(server.statuses);
	}

	reconcileStatuses(statuses: Record<string, unknown>): void {
		for (const id of this.#statuses.keys()) if (!(id in statuses)) this.#setStatus(id, IDLE);
		for (const [id, status] of Object.entries(statuses)) this.#setStatus(id, toStatus(status));
	}

	/** What was there before we came is history, not news. */
	skip(history: AgentMessage[]): void {
		for (const { info } of history) if (isFinished(info)) this.#delivered.add(String(info.id));
	}

	knows(messageId: string): boolean {
		return this.#delivered.has(messageId);
	}

	#noteParent(info: Record<string, unknown>): void {
		if (isAgentId(info.id) && isAgentId(info.parentID) && this.#owned.has(info.parentID)) this.adopt(info.id);
	}

	#noteStatus({ sessionID, status }: Record<string, unknown>): void {
		this.#told += 1;
		if (isAgentId(sessionID)) this.#setStatus(sessionID, toStatus(status));
	}

	#setStatus(id: string, status: ConversationStatus): void {
		if (status.type === "idle") this.#statuses.delete(id);
		else this.#statuses.set(id, status);
		// Nothing more comes of what is finished when its session rests.
		if (status.type === "idle" && id === this.#root)
			for (const [messageId, info] of this.#finished)
				this.#deliver(info, textOf(this.#drafts.get(messageId)));
		this.#listener.onStatus(id, status);
	}

	/** An error that names no session is ours only if nobody else of the directory could mean it. */
	#noteTrouble({ sessionID, error }: Record<string, unknown>): void {
		const others = [...this.#statuses.keys()].some((id) => !this.#owned.has(id));
		const isOurs = isAgentId(sessionID) ? sessionID === this.#root : !others;
		if (isOurs) this.#listener.onTrouble(toTrouble(error));
	}

	/**
	 * The server writes a message out when the stream takes it, not when it happened: its first event may already show its end. So it
	 * counts as finished once its last part is here, too.
	 */
	#noteMessage(info: Record<string, unknown>): void {
		if (info.role !== "assistant" || info.sessionID !== this.#root || !isAgentId(info.id)) return;
		if (!this.#inSync || !isFinished(info) || this.#delivered.has(info.id)) return;
		this.#finished.set(info.id, info);
		this.#deliverIfWhole(info.id);
	}

	#deliverIfWhole(messageId: string): void {
		const info = this.#finished.get(messageId);
		const draft = this.#drafts.get(messageId);
		if (info === undefined || draft === undefined) return;
		if ([...draft.values()].some((part) => part.type === "step-finish")) this.#deliver(info, textOf(draft));
	}

	#notePart(part: Record<string, unknown>): void {
		const { sessionID, messageID, id, type } = part;
		if (!isAgentId(sessionID) || !isAgentId(messageID) || !isAgentId(id)) return;
		if (!this.#owned.has(sessionID) || this.#delivered.has(messageID)) return;
		if (sessionID === this.#root) this.#draft(messageID, id, part);
		if (type === "step-finish") this.#deliverIfWhole(messageID);
		if (type === "text" || type === "reasoning")
			this.#texts.part(this.#place(part), text(part.text), hasEnded(part));
	}

	#draft(messageId: string, partId: string, part: Record<string, unknown>): void {
		const draft = this.#drafts.get(messageId) ?? new Map();
		this.#drafts.set(messageId, draft);
		if (this.#drafts.size > MAX_DRAFTS) this.#drafts.delete(this.#drafts.keys().next().value!);
		write(draft, partId, part);
	}

	#noteDelta({ sessionID, messageID, partID, field, delta }: Record<string, unknown>): void {
		if (!isAgentId(sessionID) || !this.#owned.has(sessionID) || this.#delivered.has(String(messageID)))
			return;
		if (typeof partID === "string" && field === "text" && typeof delta === "string")
			this.#texts.delta(partID, delta);
	}

	#noteStored(info: Record<string, unknown>, parts: Record<string, unknown>[]): void {
		if (info.role !== "assistant" || !isAgentId(info.id) || this.#delivered.has(info.id)) return;
		const draft: Draft = new Map();
		for (const part of parts) {
			write(draft, String(part.id), part);
			if (part.type === "text" || part.type === "reasoning")
				this.#texts.part(this.#place(part), text(part.text), hasEnded(part) || isFinished(info));
		}
		if (isFinished(info)) this.#deliver(info, textOf(draft));
		else this.#drafts.set(info.id, draft);
	}

	#deliver(info: Record<string, unknown>, said: string): void {
		const id = String(info.id);
		this.#finished.delete(id);
		if (!this.#delivered.add(id)) return;
		this.#drafts.delete(id);
		const message: AssistantMessage = {
			id,
			parentId: text(info.parentID),
			text: said,
			finish: text(info.finish) || null,
			error: isRecord(info.error) ? toTrouble(info.error) : null,
			tokens: isRecord(info.tokens) ? info.tokens : null,
		};
		this.#listener.onAnswered(message);
		if (said !== "" || message.error !== null) this.#listener.onMessage(message);
	}

	#place(part: Record<string, unknown>): PartPlace {
		return {
			sessionId: String(part.sessionID),
			isChild: part.sessionID !== this.#root,
			messageId: String(part.messageID),
			partId: String(part.id),
			kind: part.type === "reasoning" ? "reasoning" : "text",
		};
	}
}

/** A retry begins a new step in the same message: what the broken one had said does not count. */
function write(draft: Draft, partId: string, part: Record<string, unknown>): void {
	if (part.type === "step-start" && !draft.has(partId)) draft.clear();
	draft.set(partId, { type: text(part.type), text: part.type === "text" ? text(part.text) : "" });
}

function textOf(draft: Draft | undefined): string {
	const parts = [...(draft?.values() ?? [])].filter((part) => part.type === "text" && part.text !== "");
	return parts.map((part) => part.text).join("\n\n");
}

function isFinished(info: Record<string, unknown>): boolean {
	return isRecord(info.time) && typeof info.time.completed === "number";
}

function hasEnded(part: Record<string, unknown>): boolean {
	return isRecord(part.time) && typeof part.time.end === "number";
}

function toStatus(status: unknown): ConversationStatus {
	const { type, attempt, message, next } = isRecord(status) ? status : {};
	if (type === "retry")
		return {
			type,
			attempt: Number(attempt) || 0,
			message: text(message).slice(0, 500),
			nextMs: Number(next) || 0,
		};
	return type === "idle" ? IDLE : { type: "busy" };
}

export function toTrouble(error: unknown): AgentTrouble {
	const { name, data } = isRecord(error) ? error : {};
	const { message, statusCode } = isRecord(data) ? data : {};
	return {
		code: text(name).slice(0, 100) || "UnknownError",
		message: text(message).slice(0, 2_000),
		statusCode: typeof statusCode === "number" ? statusCode : null,
	};
}

function text(value: unknown): string {
	return typeof value === "string" ? value : "";
}
