import type { TextPiece } from "../agent/agent.ts";
import type { TurnErrorCode, TurnReply } from "./drive-turn.ts";

interface MessageInfo {
	id?: unknown;
	role?: unknown;
	parentID?: unknown;
}

interface MessagePart {
	type?: unknown;
	messageID?: unknown;
}

/**
 * What a turn has to say until somebody takes it: deltas that wait are joined, so that a slow reader holds a text, not a queue. After
 * its end nothing is said, whatever still happens.
 */
export class Replies implements AsyncIterable<TurnReply> {
	readonly traceId: string;
	#said = "";
	#waiting: TurnReply[] = [];
	#isOver = false;
	#wake = Promise.withResolvers<void>();
	/** Of the message being written: its parts in order, each with its text so far. */
	#message = "";
	readonly #parts = new Map<string, string>();
	/** Messages that answer somebody else. */
	readonly #others = new Set<string>();

	constructor(traceId: string) {
		this.traceId = traceId;
	}

	say({ messageId, partId, offset, text }: TextPiece): void {
		if (this.#isOver || this.#others.has(messageId)) return;
		if (messageId !== this.#message) this.#begin(messageId);
		const before = this.#parts.get(partId) ?? "";
		this.#parts.set(partId, before.slice(0, offset) + text);
		this.#catchUp();
	}

	/** Whom a message answers: only what answers the one that was asked counts. */
	note(name: string, properties: Record<string, unknown>, asked: string): void {
		if (this.#isOver) return;
		const { info, part } = properties as { info?: MessageInfo; part?: MessagePart };
		if (name === "message.updated" && info?.role === "assistant" && info.parentID !== asked)
			this.#others.add(String(info.id));
		if (name === "message.part.updated") this.#noteStep(part);
	}

	/** A second step in the same message: the first broke off, and what it said does not count. */
	#noteStep(part: MessagePart | undefined): void {
		if (part?.type !== "step-start" || part.messageID !== this.#message || this.#parts.size === 0) return;
		this.#parts.clear();
		this.#reset();
	}

	finish(content: string, tokens: Record<string, unknown> | null): void {
		if (this.#isOver) return;
		// The stored text is the true one: a delta that went astray is made up for.
		this.#tell(content);
		this.#end({
			kind: "final",
			traceId: this.traceId,
			content,
			...(tokens === null ? {} : { usage: tokens }),
		});
	}

	fail(code: TurnErrorCode, retryable: boolean, message: string): void {
		this.#end({ kind: "error", traceId: this.traceId, code, retryable, message });
	}

	stopped(isTimeout: boolean): void {
		if (isTimeout) this.fail("timeout", true, "the turn took too long");
		else this.fail("aborted", false, "the turn was stopped");
	}

	async *[Symbol.asyncIterator](): AsyncIterator<TurnReply> {
		for (;;) {
			const next = this.#waiting.shift();
			if (next !== undefined) yield next;
			else if (this.#isOver) return;
			else await this.#wake.promise;
		}
	}

	/** The final text is that of the last message, and so are the deltas since the last reset. */
	#begin(messageId: string): void {
		const isFirst = this.#message === "";
		this.#message = messageId;
		this.#parts.clear();
		if (!isFirst && this.#said !== "") this.#reset();
	}

	#catchUp(): void {
		this.#tell([...this.#parts.values()].filter((part) => part !== "").join("\n\n"));
	}

	/** Since the last reset exactly this has been said. */
	#tell(text: string): void {
		if (text.startsWith(this.#said)) {
			this.#delta(text.slice(this.#said.length));
			return;
		}
		this.#reset();
		this.#delta(text);
	}

	#delta(content: string): void {
		if (content === "") return;
		this.#said += content;
		const last = this.#waiting.at(-1);
		if (last?.kind === "delta") last.content += content;
		else this.#push({ kind: "delta", traceId: this.traceId, content });
	}

	#reset(): void {
		this.#said = "";
		this.#push({ kind: "reset", traceId: this.traceId });
	}

	#end(reply: TurnReply): void {
		if (this.#isOver) return;
		this.#isOver = true;
		this.#push(reply);
	}

	#push(reply: TurnReply): void {
		this.#waiting.push(reply);
		this.#wake.resolve();
		this.#wake = Promise.withResolvers<void>();
	}
}
