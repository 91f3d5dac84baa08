/**
 * What the writer and every reader of a call log remember alike: a few slots, each with the last state of one live
 * branch. Later calls are stored as differences against a slot, so memory is bounded by the live branches and does
 * not grow with the number of calls.
 */
export interface Slot<Ids> {
	/** Prompt and completion of the slot's last call. */
	ids: Ids;
	/** Numbers of the objects that are its messages, its tools and its reply. */
	messages: number[];
	tools: number[];
	reply: number | null;
}

export class TraceWindow<Ids> {
	readonly #slots = new Map<number, Slot<Ids>>();
	readonly #uses = new Map<number, number>();

	get(slot: number): Slot<Ids> | undefined {
		return this.#slots.get(slot);
	}

	/** Least recently written first. */
	entries(): [number, Slot<Ids>][] {
		return [...this.#slots];
	}

	/** Replaces a slot; returns the objects that no slot holds any more. */
	set(slot: number, state: Slot<Ids>): number[] {
		const old = this.#slots.get(slot);
		for (const object of objectsOf(state)) this.#uses.set(object, (this.#uses.get(object) ?? 0) + 1);
		this.#slots.delete(slot);
		this.#slots.set(slot, state);
		return old ? this.#release(old) : [];
	}

	#release(slot: Slot<Ids>): number[] {
		const dropped: number[] = [];
		for (const object of objectsOf(slot)) {
			const uses = this.#uses.get(object)! - 1;
			if (uses > 0) this.#uses.set(object, uses);
			else {
				this.#uses.delete(object);
				dropped.push(object);
			}
		}
		return dropped;
	}
}

function objectsOf(slot: Slot<unknown>): number[] {
	return [...slot.messages, ...slot.tools, ...(slot.reply === null ? [] : [slot.reply])];
}

/** How many tokens two sequences have in common from the start. Apart from its twin below so that it stays fast. */
export function sharedIds(a: Int32Array, b: Int32Array): number {
	const limit = Math.min(a.length, b.length);
	let length = 0;
	while (length < limit && a[length] === b[length]) length++;
	return length;
}

export function sharedNumbers(a: number[], b: number[]): number {
	const limit = Math.min(a.length, b.length);
	let length = 0;
	while (length < limit && a[length] === b[length]) length++;
	return length;
}
