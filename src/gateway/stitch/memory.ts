import type { JsonObject } from "../protocols/protocol.ts";
import { type Conversation, isContinuation, type Likeness, standsFor } from "./recognise.ts";

/** A call that the agent got whole. What came before it is its parent's: prefixes are kept once. */
export interface Delivered {
	index: number;
	conversation: Conversation;
	reply: JsonObject;
	/** It may have been stopped in the middle of its turn: at the token limit, or at a stop string. */
	isCut: boolean;
	/** It, or a call it goes on from, thought aloud. */
	hasReasoned: boolean;
	parent: Delivered | null;
	/** Prompt and completion, without what the parent has. */
	tail: Int32Array;
	/** Of prompt and completion. */
	length: number;
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
/** 16 MB for a rollout, whatever its length. */
const MAX_IDS = 4_000_000;

/** The calls of one rollout that a later one may go on from. */
export class Memory {
	/** The one that spoke last comes last. */
	readonly #sessions = new Map<string, Delivered[]>();
	readonly #names = new Set<string>();
	#ids = 0;

	add(session: string, call: Delivered): void {
		const calls = this.#sessions.get(session) ?? [];
		this.#sessions.delete(session);
		this.#sessions.set(session, calls);
		calls.push(call);
		this.#ids += call.tail.length;
		// Its tokens stay: what came later builds on them.
		if (calls.length > MAX_CALLS_OF_SESSION) calls.shift();
		if (this.#names.size < MAX_NAMES) this.#names.add(session);
		while (this.#ids > MAX_IDS || this.#sessions.size > MAX_SESSIONS) this.#forgetOne();
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
			const { messages: before, terms } = call.conversation;
			const from = before.length + 1;
			if (terms !== conversation.terms || messages.length <= from || (best !== null && best.from > from))
				continue;
			if (!before.every((digest, index) => digest === conversation.messages[index])) continue;
			const how = standsFor(call.reply, messages[before.length]);
			if (how !== null && isContinuation(messages.slice(from))) best = { call, how, from };
		}
		return best;
	}

	/** A session that long goes on without us: its next call starts anew. */
	#forgetOne(): void {
		const [session, calls] = this.#sessions.entries().next().value!;
		this.#sessions.delete(session);
		const tails = new Set<Int32Array>();
		for (const call of calls)
			for (let at: Delivered | null = call; at !== null && !tails.has(at.tail); at = at.parent)
				tails.add(at.tail);
		for (const tail of tails) this.#ids -= tail.length;
	}
}

/** All that the model has seen and said up to the end of this call. */
export function idsOf(call: Delivered): number[] {
	const ids = new Int32Array(call.length);
	let end = call.length;
	for (let at: Delivered | null = call; at !== null; at = at.parent) {
		end -= at.tail.length;
		ids.set(at.tail, end);
	}
	return Array.from(ids);
}
