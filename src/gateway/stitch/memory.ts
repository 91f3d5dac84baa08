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
/** 16 MB for a rollout, whatever its length. */
const MAX_IDS = 4_000_000;

/** The calls of one rollout that a later one may go on from. */
export class Memory {
	readonly #sessions = new Map<string, Delivered[]>();
	#ids = 0;

	add(session: string, call: Delivered): void {
		if (this.#ids + call.tail.length > MAX_IDS) this.#forget();
		const calls = this.#sessions.get(session) ?? [];
		calls.push(call);
		if (calls.length > MAX_CALLS_OF_SESSION) calls.shift();
		this.#sessions.set(session, calls);
		this.#ids += call.tail.length;
	}

	has(session: string): boolean {
		return this.#sessions.has(session);
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

	/** A rollout that long goes on without us: its next calls start anew. */
	#forget(): void {
		this.#sessions.clear();
		this.#ids = 0;
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
