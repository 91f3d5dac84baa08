import type { ConversationEvent } from "../../model/conversation.ts";
import type { LiveText } from "../../model/live-text.ts";
import { oneLine, type Paint, printable } from "../terminal/style.ts";
import type { ChatEvent } from "./partner.ts";
import { describeTool, type ToolPart, toolLines, type Verbosity } from "./tools.ts";

export type Ask = Extract<ConversationEvent, { type: "permission-ask" | "question-ask" }>;

interface Text {
	text: string;
	/** So much of it stands on the screen for good. */
	printed: number;
}

export interface StoryOptions {
	paint: Paint;
	/** Lines that stay. */
	print(...lines: string[]): void;
	verbosity: Verbosity;
	/** The person at this terminal; what they said is on the screen already. */
	me: string;
}

/** What a conversation's events mean for somebody who looks on: lines that stay, and what goes on just now. */
export class Story {
	verbosity: Verbosity;
	/** Why it is over; null while it is not. */
	ended: string | null = null;
	/** Sub-agents have sessions of their own; what they write is for the agent. */
	sessionId: string | null = null;
	isBusy = false;
	busySince = 0;
	/** What happens before the agent can be talked to. */
	phase = "waiting for a box";
	readonly asks: Ask[] = [];
	/** What was changed, by path; the newest change last. */
	readonly changes = new Map<string, string[]>();
	readonly #options: StoryOptions;
	readonly #texts = new Map<string, Text>();
	readonly #running = new Map<string, ToolPart>();
	/** A blank line stands between what a person said and what follows. */
	#isFresh = true;

	constructor(options: StoryOptions) {
		this.#options = options;
		this.verbosity = options.verbosity;
	}

	/** What is being written, as far as its line is not complete. */
	get partial(): string {
		return [...this.#texts.values()].map(({ text, printed }) => printable(text.slice(printed))).join("");
	}

	/** Tools at work, one line each. */
	get running(): string[] {
		if (this.verbosity === "silent") return [];
		return [...this.#running.values()].map(describeTool);
	}

	sent(text: string): void {
		const [first = "", ...rest] = printable(text).split("\n");
		const { paint, print } = this.#options;
		this.#breakOff();
		print(
			"",
			`${paint("cyan", "›")} ${paint("bold", first)}`,
			...rest.map((line) => `  ${paint("bold", line)}`),
		);
		this.#isFresh = false;
		this.#begin();
	}

	take(event: ChatEvent): void {
		if (event.type === "text") {
			this.#write(event);
			return;
		}
		if (event.type === "agent-event") {
			this.#agent(event.name, event.properties);
			return;
		}
		this.#happened(event);
	}

	#happened(event: ConversationEvent): void {
		const { paint, me } = this.#options;
		switch (event.type) {
			case "phase-start":
				this.phase = event.phase === "agent" ? "" : (PHASES[event.phase] ?? event.phase);
				return;
			case "session-start":
				this.sessionId = event.sessionId;
				return;
			case "setup-start":
				this.phase = `${event.step}/${event.of}: ${oneLine(event.cmd)}`;
				return;
			case "message-sent":
				if (event.by !== me) this.sent(event.text);
				this.#begin();
				return;
			case "permission-ask":
			case "question-ask":
				this.asks.push(event);
				return;
			case "permission-end":
			case "question-end":
				this.#decided(event);
				return;
			case "interrupted":
				this.#say(paint("yellow", "Interrupted."));
				return;
			case "conversation-start":
				// What another worker's agent asked nobody waits for any more.
				this.asks.length = 0;
				return;
			case "permission-always":
				if (event.by !== me)
					this.#say(paint("dim", `Allowed from now on: ${oneLine(event.patterns.join(", "))}`));
				return;
			case "model-set":
				this.#say(paint("dim", `From now on: ${oneLine(event.model)}`));
				return;
			case "note":
				this.#say(paint("dim", oneLine(event.text)));
				return;
			case "attempt-failed":
				this.#say(paint("yellow", `It starts again: ${oneLine(event.failure.message)}`));
				return;
			case "turn-end":
				this.#turnEnded(event.error);
				return;
			case "conversation-end":
				this.ended = event.failure?.message ?? ENDS[event.reason] ?? event.reason;
				this.#rest();
				return;
			default:
		}
	}

	#begin(): void {
		if (!this.isBusy) this.busySince = performance.now();
		this.isBusy = true;
	}

	#rest(): void {
		this.#flushAll();
		this.isBusy = false;
		this.#running.clear();
		this.asks.length = 0;
	}

	#turnEnded(error: { code: string; message: string } | null): void {
		this.#rest();
		if (error === null || error.code === "MessageAbortedError") return;
		this.#say(this.#options.paint("red", `The agent could not go on: ${oneLine(error.message)}`));
	}

	#decided({
		requestId,
		by,
		reply,
	}: Extract<ConversationEvent, { type: "permission-end" | "question-end" }>): void {
		const at = this.asks.findIndex((ask) => ask.requestId === requestId);
		if (at === -1) return;
		const [ask] = this.asks.splice(at, 1);
		if (ask?.type !== "permission-ask" || by === this.#options.me) return;
		const what = oneLine(`${ask.permission} ${ask.patterns.join(" ")}`);
		this.#say(this.#options.paint("dim", `${reply === "reject" ? "Denied" : "Permitted"} (${by}): ${what}`));
	}

	#agent(name: string, properties: Record<string, unknown>): void {
		if (name !== "message.part.updated") return;
		const part = properties.part as Record<string, unknown> | undefined;
		if (part?.type === "tool") {
			this.#tool(part as unknown as ToolPart);
			return;
		}
		const isRoot = this.sessionId === null || part?.sessionID === this.sessionId;
		if (part?.type === "text" && typeof part.id === "string" && isRoot)
			this.#finish(part.id, String(part.text ?? ""));
	}

	#write({ partId, offset, text, kind, isChild }: LiveText): void {
		if (kind !== "text" || isChild) return;
		const before = this.#texts.get(partId) ?? { text: "", printed: 0 };
		this.#texts.set(partId, { text: before.text.slice(0, offset) + text, printed: before.printed });
		this.#flush(partId);
	}

	/** What is stored is the truth; a long one is stored in full elsewhere, and what was heard of it stands. */
	#finish(partId: string, stored: string): void {
		const heard = this.#texts.get(partId);
		// What people say comes back as a part of the agent's own.
		if (heard === undefined && !this.isBusy) return;
		const isCut = /… \(\d+ characters\)$/.test(stored);
		const text = heard !== undefined && isCut && heard.text.length > 4_000 ? heard.text : stored;
		this.#texts.set(partId, { text, printed: Math.min(heard?.printed ?? 0, text.length) });
		this.#flush(partId);
		this.#flushLast(partId);
	}

	#flush(partId: string): void {
		const part = this.#texts.get(partId)!;
		for (
			let end = part.text.indexOf("\n", part.printed);
			end !== -1;
			end = part.text.indexOf("\n", part.printed)
		) {
			this.#say(printable(part.text.slice(part.printed, end)));
			part.printed = end + 1;
		}
	}

	#flushLast(partId: string): void {
		const part = this.#texts.get(partId);
		this.#texts.delete(partId);
		if (part !== undefined && part.printed < part.text.length)
			this.#say(printable(part.text.slice(part.printed)));
	}

	/** Something comes between: what is being written goes on below it. */
	#breakOff(): void {
		for (const part of this.#texts.values()) {
			if (part.printed < part.text.length) this.#say(printable(part.text.slice(part.printed)));
			part.printed = part.text.length;
		}
	}

	#flushAll(): void {
		for (const partId of [...this.#texts.keys()]) this.#flushLast(partId);
	}

	#tool(part: ToolPart): void {
		const { status } = part.state;
		if (status === "running" || status === "pending") {
			this.#running.set(part.callID, part);
			return;
		}
		this.#running.delete(part.callID);
		this.#noteChange(part);
		this.#flushAll();
		for (const line of toolLines(part, this.verbosity, this.#options.paint)) this.#say(line);
	}

	/** Edits come with what they changed. */
	#noteChange({ state }: ToolPart): void {
		const { filePath } = state.input ?? {};
		const { diff } = state.metadata ?? {};
		if (state.status !== "completed" || typeof filePath !== "string" || typeof diff !== "string") return;
		const before = this.changes.get(filePath) ?? [];
		this.changes.delete(filePath);
		this.changes.set(filePath, [...before, diff]);
	}

	#say(line: string): void {
		if (!this.#isFresh) this.#options.print("");
		this.#isFresh = true;
		this.#options.print(line);
	}
}

const PHASES: Record<string, string> = {
	queued: "waiting for a box",
	create: "opening a box",
	setup: "setting up",
	collect: "saving",
	done: "saving",
};

const ENDS: Record<string, string> = {
	asked: "it was closed",
	idle: "nothing was said for too long",
	lifetime: "its time was up",
	budget: "its budget is used up",
	failed: "it failed",
};
