import type { JsonObject } from "../protocols/protocol.ts";
import { type Conversation, isContinuation, type Likeness, standsFor } from "./recognise.ts";

/** The tokens up to the end of a call. What came before is another line's: prefixes are kept once. */
export interface Line {
	before: Line | null;
	/** Prompt and completion, without what the line before has. */
	tail: Int32Array;
	/** Of prompt and completion. */
	length: number;
	/** Remembered calls that end here, and lines that go on from here. */
	users: number;
}

/** A call that the agent got whole. */
export interface Delivered {
	index: number;
	/** How many messages it was asked, and the digest of them all. */
	messages: number;
	history: string;
	terms: string;
	reply: JsonObject;
	/** It may have been stopped in the middle of its turn: at the token limit, or at a stop string. */
	isCut: boolean;
	/** It, or a call it goes on from, thought aloud. */
	hasReasoned: boolean;
	line: Line;
	/** Of its reply. */
	bytes: number;
}

export interface Parent {
	call: Delivered;
	how: Likeness;
	/** The messages that are new, and where they begin. */
	from: number;
}

const MAX_CALLS_OF_SESSION = 64;
/** An agent may start any number of sub-agents; those that rested longest are forgotten first. */
const MAX_SESSIONS = 32;
const MAX_NAMES = 1_000;
/** For a rollout, whatever its length. */
const MAX_BYTES = 16_000_000;

/** The calls of one rollout that a later one may go on from. */
export class Memory {
	/** The one that spoke last comes last. */
	readonly #sessions = new Map<string, Delivered[]>();
	readonly #names = new Set<string>();
	#bytes = 0;

	add(session: string, call: Delivered): void {
		const calls = this.#sessions.get(session) ?? [];
		this.#sessions.delete(session);
		this.#sessions.set(session, calls);
		calls.push(call);
		this.#bytes += call.bytes;
		this.#keep(call.line);
		if (calls.length > MAX_CALLS_OF_SESSION) this.#forget(calls.shift()!);
		if (this.#names.size < MAX_NAMES) this.#names.add(session);
		while (this.#bytes > MAX_BYTES || this.#sessions.size > MAX_SESSIONS) this.#forgetSession();
	}

	has(session: string): boolean {
		return this.#sessions.has(session);
	}

	/** It has spoken, whether or not that is remembered. */
	knows(session: string): boolean {
		return this.#names.has(session);
	}

	/** The longest call whose messages and reply this conversation goes on from. */
	find(session: string, conversation: Conversation, messages: readonly unknown[]): Parent | null {
		let best: Parent | null = null;
		for (const call of this.#sessions.get(session) ?? []) {
			const from = call.messages + 1;
			if (call.terms !== conversation.terms || messages.length <= from || (best !== null && best.from > from))
				continue;
			if (call.history !== conversation.histories[call.messages]) continue;
			const how = standsFor(call.reply, messages[call.messages]);
			if (how !== null && isContinuation(messages.slice(from))) best = { call, how, from };
		}
		return best;
	}

	/** A session that long goes on without us: its next call starts anew. */
	#forgetSession(): void {
		const [session, calls] = this.#sessions.entries().next().value!;
		this.#sessions.delete(session);
		for (const call of calls) this.#forget(call);
	}

	#forget(call: Delivered): void {
		this.#bytes -= call.bytes;
		this.#drop(call.line);
	}

	#keep(line: Line): void {
		for (let at: Line | null = line; at !== null && at.users++ === 0; at = at.before)
			this.#bytes += at.tail.byteLength;
	}

	/** Tokens stay for as long as something that is remembered builds on them. */
	#drop(line: Line): void {
		for (let at: Line | null = line; at !== null && --at.users === 0; at = at.before)
			this.#bytes -= at.tail.byteLength;
	}
}

/** All that the model has seen and said up to the end of this line. */
export function idsOf(line: Line): number[] {
	const ids = new Int32Array(line.length);
	let end = line.length;
	for (let at: Line | null = line; at !== null; at = at.before) {
		end -= at.tail.length;
		ids.set(at.tail, end);
	}
	return Array.from(ids);
}
