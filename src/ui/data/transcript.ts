import type { LogEvent, Written } from "./log-event.ts";
import { inOrder } from "./part-order.ts";

interface Base {
	key: string;
	at: number;
	/** 0 for the agent itself, 1 for its sub-agents. */
	depth: number;
	/** Of what is a part of a message. Parts are stored when they end, and stand as their ids do. */
	part?: { messageId: string; id: string } | undefined;
}

export interface ToolEntry extends Base {
	type: "tool";
	tool: string;
	status: "pending" | "running" | "completed" | "error";
	title: string;
	input: Record<string, unknown>;
	output: string;
	error: string | null;
	durationS: number | null;
}

export interface AskEntry extends Base {
	type: "permission";
	requestId: string;
	permission: string;
	patterns: string[];
	/** Null while it waits. */
	reply: string | null;
	by: string | null;
}

export interface QuestionEntry extends Base {
	type: "question";
	requestId: string;
	questions: Question[];
	isOpen: boolean;
	by: string | null;
}

export interface Question {
	question: string;
	header: string;
	options: { label: string; description: string }[];
	multiple: boolean;
}

export type Entry =
	| (Base & { type: "person"; text: string; by: string })
	| (Base & { type: "text" | "reasoning" | "note"; text: string })
	| ToolEntry
	| AskEntry
	| QuestionEntry;

/** What was said and done, in order. A part that is said again in full replaces itself where it stood. */
export function readTranscript(
	instruction: string,
	events: readonly LogEvent[],
	texts: ReadonlyMap<string, Written> = new Map(),
): Entry[] {
	const reader = new Reader(instruction);
	for (const event of events) reader.hear(event);
	for (const [partId, written] of texts) reader.write(partId, written);
	return reader.entries();
}

class Reader {
	#entries = new Map<string, Entry>();
	#rootSession: string | null = null;
	/** What people said comes back as parts of the agent's messages; it is shown where it was sent. */
	readonly #said = new Set<string>();
	readonly #instruction: string;

	constructor(instruction: string) {
		this.#instruction = instruction;
		this.#said.add(instruction);
	}

	entries(): Entry[] {
		return inOrder(this.#entries.values());
	}

	/** What is being written just now; what was stored of it is never longer. */
	write(key: string, { kind, isChild, text, messageId }: Written): void {
		if (text.trim() === "") return;
		const part = { messageId, id: key };
		this.#put({ key, at: Date.now(), depth: isChild ? 1 : 0, part, type: kind, text });
	}

	hear(event: LogEvent): void {
		const base = { key: `event-${event.seq}`, at: event.at, depth: 0 };
		switch (event.type) {
			case "rollout-start":
				this.#entries = new Map();
				this.#rootSession = null;
				this.#put({ ...base, key: "instruction", type: "person", text: this.#instruction, by: "task" });
				return;
			case "session-start":
				this.#rootSession ??= event.sessionId;
				return;
			case "conversation-start":
				this.#letGo("another worker");
				return;
			case "message-sent":
				if (event.again) return;
				this.#said.add(event.text);
				this.#put({ ...base, type: "person", text: event.text, by: event.by });
				return;
			case "turn-end":
				if (event.ended !== "answered") this.#put({ ...base, type: "note", text: sayTurn(event) });
				return;
			case "deliverable":
				this.#put({ ...base, type: "note", text: `wrote ${event.path} (${event.sizeBytes} bytes)` });
				return;
			case "state-restored":
				this.#put({ ...base, type: "note", text: "opened again with its history and its files" });
				return;
			case "permission-always":
				this.#put({
					...base,
					type: "note",
					text: `${event.by} allows from now on: ${event.patterns.join(", ")}`,
				});
				return;
			case "model-set":
				this.#put({ ...base, type: "note", text: `${event.by} chose the model ${event.model}` });
				return;
			case "conversation-end":
				this.#letGo("the end");
				this.#put({ ...base, type: "note", text: `closed (${event.reason})` });
				return;
			case "note":
				this.#put({ ...base, type: "note", text: event.text });
				return;
			case "permission-ask":
				this.#put({
					...base,
					key: event.requestId,
					type: "permission",
					requestId: event.requestId,
					permission: event.permission,
					patterns: event.patterns,
					reply: null,
					by: null,
				});
				return;
			case "permission-end":
				this.#change(event.requestId, { reply: event.reply, by: event.by });
				return;
			case "question-ask":
				this.#put({
					...base,
					key: event.requestId,
					type: "question",
					requestId: event.requestId,
					questions: event.questions.map(toQuestion),
					isOpen: true,
					by: null,
				});
				return;
			case "question-end":
				this.#change(event.requestId, { isOpen: false, by: event.by });
				return;
			case "agent-event":
				if (event.name === "message.part.updated") this.#part(event.properties.part, event.at);
		}
	}

	#part(value: unknown, at: number): void {
		if (typeof value !== "object" || value === null) return;
		const part = value as Part;
		const depth =
			this.#rootSession !== null && part.sessionID !== undefined && part.sessionID !== this.#rootSession
				? 1
				: 0;
		if (part.type === "tool" && part.callID !== undefined) {
			this.#put(toTool(part, at, depth));
			return;
		}
		if ((part.type !== "text" && part.type !== "reasoning") || part.id === undefined) return;
		if (part.text === undefined || part.text.trim() === "") return;
		// Only what the agent wrote has an end; it may say the very words of a person.
		if (part.time?.end === undefined && this.#said.has(part.text)) return;
		this.#put({ key: part.id, at, depth, part: placeOf(part), type: part.type, text: part.text });
	}

	/** Nobody waits any more for what is still open: whoever asked is gone. */
	#letGo(by: string): void {
		for (const entry of this.#entries.values()) {
			if (entry.type === "permission" && entry.reply === null)
				this.#change(entry.key, { reply: "unknown", by });
			if (entry.type === "question" && entry.isOpen) this.#change(entry.key, { isOpen: false, by });
		}
	}

	#put(entry: Entry): void {
		const before = this.#entries.get(entry.key);
		this.#entries.set(entry.key, before === undefined ? entry : { ...entry, at: before.at });
	}

	#change(key: string, change: Partial<AskEntry> | Partial<QuestionEntry>): void {
		const before = this.#entries.get(key);
		if (before !== undefined) this.#entries.set(key, { ...before, ...change } as Entry);
	}
}

function placeOf({ id, messageID }: Part): Entry["part"] {
	return id === undefined || messageID === undefined ? undefined : { id, messageId: messageID };
}

function sayTurn({ ended, error }: Extract<LogEvent, { type: "turn-end" }>): string {
	return error === null ? `the turn ended: ${ended}` : `the turn ended: ${ended}, ${error.message}`;
}

interface Part {
	id?: string;
	messageID?: string;
	type?: string;
	text?: string;
	sessionID?: string;
	time?: { end?: number };
	callID?: string;
	tool?: string;
	state?: {
		status?: ToolEntry["status"];
		title?: string;
		input?: Record<string, unknown>;
		output?: string;
		error?: string;
		metadata?: Record<string, unknown>;
		time?: { start?: number; end?: number };
	};
}

function toTool(part: Part, at: number, depth: number): ToolEntry {
	const {
		status = "pending",
		title,
		input = {},
		output,
		error = null,
		metadata = {},
		time,
	} = part.state ?? {};
	const shown = output ?? (typeof metadata.output === "string" ? metadata.output : "");
	return {
		key: part.callID!,
		at,
		depth,
		part: placeOf(part),
		type: "tool",
		tool: part.tool ?? "tool",
		status,
		title: title ?? describeInput(input),
		input,
		output: shown,
		error,
		durationS: time?.start !== undefined && time.end !== undefined ? (time.end - time.start) / 1000 : null,
	};
}

/** The one argument that says most. */
function describeInput(input: Record<string, unknown>): string {
	for (const name of ["command", "filePath", "path", "pattern", "query", "url", "description", "prompt"]) {
		const value = input[name];
		if (typeof value === "string") return value;
	}
	return "";
}

function toQuestion(value: unknown): Question {
	const given = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
	const options = Array.isArray(given.options) ? given.options : [];
	return {
		question: String(given.question ?? ""),
		header: String(given.header ?? ""),
		multiple: given.multiple === true,
		options: options.map((option: Record<string, unknown>) => ({
			label: String(option?.label ?? ""),
			description: String(option?.description ?? ""),
		})),
	};
}
