import { hash } from "node:crypto";
import { promisify } from "node:util";
import { deflate, deflateSync, inflateSync } from "node:zlib";
import type { ModelCall } from "../../model/call.ts";
import { pauseFor } from "../../model/measured-json.ts";
import {
	type CallHead,
	type CallPayload,
	decodePayload,
	encodePayload,
	toInt32,
	type WrittenPayload,
} from "./payload.ts";
import {
	encodeRecord,
	encodeStart,
	MAX_PAYLOAD_BYTES,
	RecordType,
	readRecords,
	type TraceRecord,
} from "./record.ts";
import { type Slot, sharedIds, sharedNumbers, TraceWindow } from "./window.ts";

/** How many branches may be alive at once before the oldest has to be stored anew. */
const SLOTS = 8;
/** Larger payloads are deflated off the main thread. */
const SYNC_DEFLATE_BYTES = 32 * 1024;
const deflateAside = promisify(deflate);

/**
 * Writes calls to an append-only log: one append for each call, so a call is on disk whole or not at all. Calls may be
 * written at the same time; they reach the log one after the other, in the order of `write`.
 */
export class TraceWriter {
	readonly #append: (bytes: Uint8Array) => Promise<void>;
	#encoder: CallEncoder | null = null;
	#last: Promise<void> = Promise.resolve();

	constructor(append: (bytes: Uint8Array) => Promise<void>) {
		this.#append = append;
	}

	write(call: ModelCall): Promise<void> {
		const written = this.#last.then(() => this.#writeNow(call));
		// Whoever wrote that call hears of its failure; the next one is written all the same.
		this.#last = written.catch(() => {});
		return written;
	}

	async #writeNow(call: ModelCall): Promise<void> {
		const parts = this.#encoder ? [] : [encodeStart()];
		const encoder = this.#encoder ?? new CallEncoder();
		// Whatever fails from here on, the next call opens a new section that refers to nothing before it.
		this.#encoder = null;
		if (call.retryOf !== null) parts.push(encodeRecord(supersededRecord(call.retryOf)));
		const payload = encoder.encode(call);
		await pauseFor(payload.objects.reduce((sum, json) => sum + json.length, 0));
		parts.push(encodeRecord(await deflated(encodePayload(payload))));
		await this.#append(parts.length === 1 ? parts[0]! : Buffer.concat(parts));
		this.#encoder = encoder;
	}
}

/**
 * The calls of a log in the order in which they ended; `index` has the order of the requests. Memory is bounded by the
 * live branches. Whether a call was superseded is known only from what follows it: hand in a function that opens the
 * log and it is read twice; with a single pass over `chunks`, a call replaced later is not marked (it is incomplete
 * all the same, and no sample is made of it).
 */
export async function* readCalls(
	chunks: AsyncIterable<Uint8Array> | (() => AsyncIterable<Uint8Array>),
): AsyncGenerator<ModelCall> {
	const twice = typeof chunks === "function";
	const superseded = twice ? await readSuperseded(chunks()) : new Set<number>();
	let decoder = new CallDecoder();
	for await (const record of readRecords(twice ? chunks() : chunks)) {
		if (record.type === RecordType.start) decoder = new CallDecoder();
		if (record.type !== RecordType.call) continue;
		const call = decoder.decode(decodePayload(inflated(record)));
		yield { ...call, superseded: superseded.has(call.index) };
	}
}

/** Indexes of the calls that a retry replaced; inflates nothing. */
export async function readSuperseded(chunks: AsyncIterable<Uint8Array>): Promise<Set<number>> {
	const indexes = new Set<number>();
	for await (const record of readRecords(chunks)) {
		if (record.type === RecordType.superseded) indexes.add(record.payload.readUInt32LE(0));
	}
	return indexes;
}

class CallEncoder {
	readonly #window = new TraceWindow<Int32Array>();
	/** The objects some slot holds, both ways. */
	readonly #numbers = new Map<string, number>();
	readonly #digests = new Map<number, string>();
	#objects = 0;

	encode(call: ModelCall): WrittenPayload {
		const added: string[] = [];
		const number = (value: unknown) => this.#number(value, added);
		const prompt = toInt32(call.promptIds);
		const completionIds = toInt32(call.completionIds);
		const messages = call.request.messages.map(number);
		const tools = call.request.tools.map(number);
		const reply = call.response.message === null ? null : number(call.response.message);
		const next: Slot<Int32Array> = { ids: joined(prompt, completionIds), messages, tools, reply };
		const base = nearest(this.#window.entries(), prompt, messages);
		const from = base === null ? null : this.#window.get(base)!;
		const keep = {
			ids: from ? sharedIds(from.ids, prompt) : 0,
			messages: from ? sharedNumbers(from.messages, messages) : 0,
			tools: from ? sharedNumbers(from.tools, tools) : 0,
		};
		const slot = this.#slotFor(base, keep.messages);
		for (const dropped of this.#window.set(slot, next)) {
			this.#numbers.delete(this.#digests.get(dropped)!);
			this.#digests.delete(dropped);
		}
		const head: WrittenPayload["head"] = {
			slot,
			base,
			messages: { keep: keep.messages, add: messages.slice(keep.messages) },
			tools: { keep: keep.tools, add: tools.slice(keep.tools) },
			reply,
			promptIds: { keep: keep.ids, add: prompt.length - keep.ids },
			completionIds: completionIds.length,
			logprobs: call.logprobs.length,
			call: restOf(call),
		};
		const logprobs = Float32Array.from(call.logprobs);
		return { head, objects: added, promptTail: prompt.subarray(keep.ids), completionIds, logprobs };
	}

	/** An object is known by the SHA-256 of its JSON; a new one is added and gets the next number. */
	#number(value: unknown, added: string[]): number {
		const json = JSON.stringify(value) ?? "null";
		const digest = hash("sha256", json, "base64");
		const known = this.#numbers.get(digest);
		if (known !== undefined) return known;
		const number = this.#objects++;
		this.#numbers.set(digest, number);
		this.#digests.set(number, digest);
		added.push(json);
		return number;
	}

	/** A call that goes on where its base ended takes over the base's slot; any other opens a branch of its own. */
	#slotFor(base: number | null, keptMessages: number): number {
		if (base !== null && this.#window.get(base)!.messages.length === keptMessages) return base;
		const taken = this.#window.entries();
		return taken.length < SLOTS ? taken.length : taken[0]![0];
	}
}

class CallDecoder {
	readonly #window = new TraceWindow<number[]>();
	readonly #objects = new Map<number, unknown>();
	#count = 0;

	decode({ head, promptTail, completionIds, logprobs }: CallPayload): Omit<ModelCall, "superseded"> {
		for (const object of head.objects) this.#objects.set(this.#count++, object);
		const base = head.base === null ? undefined : this.#window.get(head.base);
		if (head.base !== null && !base)
			throw new Error(`call ${head.call.index} builds on a slot that is empty`);
		const messages = [...(base?.messages.slice(0, head.messages.keep) ?? []), ...head.messages.add];
		const tools = [...(base?.tools.slice(0, head.tools.keep) ?? []), ...head.tools.add];
		const promptIds = extended(base?.ids.slice(0, head.promptIds.keep) ?? [], promptTail);
		const { params, patch, finishReason, ...rest } = head.call;
		const call = {
			...rest,
			request: { messages: messages.map(this.#object), tools: tools.map(this.#object), params, patch },
			response: {
				message: head.reply === null ? null : (this.#object(head.reply) as Record<string, unknown>),
				finishReason,
			},
			promptIds,
			completionIds: extended([], completionIds),
			logprobs: extended([], logprobs),
		};
		const next = { ids: extended(promptIds.slice(), completionIds), messages, tools, reply: head.reply };
		for (const dropped of this.#window.set(head.slot, next)) this.#objects.delete(dropped);
		return call;
	}

	#object = (number: number): unknown => {
		if (!this.#objects.has(number)) throw new Error(`a call refers to object ${number}, which no slot holds`);
		return this.#objects.get(number);
	};
}

/** The slot that saves most: by shared tokens, else by shared messages. */
function nearest(slots: [number, Slot<Int32Array>][], prompt: Int32Array, messages: number[]): number | null {
	let best: number | null = null;
	let most = 0;
	for (const [slot, state] of slots) {
		const shared = sharedIds(state.ids, prompt) + sharedNumbers(state.messages, messages);
		if (shared >= most && shared > 0) {
			best = slot;
			most = shared;
		}
	}
	return best;
}

function restOf(call: ModelCall): CallHead["call"] {
	const { superseded, request, response, promptIds, completionIds, logprobs, ...rest } = call;
	return { ...rest, params: request.params, patch: request.patch, finishReason: response.finishReason };
}

function joined(head: Int32Array, tail: Int32Array): Int32Array {
	const all = new Int32Array(head.length + tail.length);
	all.set(head);
	all.set(tail, head.length);
	return all;
}

/** Appends in place: many times faster than building an array from a typed one. */
function extended(numbers: number[], tail: ArrayLike<number>): number[] {
	for (let at = 0; at < tail.length; at++) numbers.push(tail[at]!);
	return numbers;
}

function supersededRecord(index: number): TraceRecord {
	const payload = Buffer.alloc(4);
	payload.writeUInt32LE(index);
	return { type: RecordType.superseded, deflated: false, payload };
}

async function deflated(payload: Buffer): Promise<TraceRecord> {
	const smaller = payload.length > SYNC_DEFLATE_BYTES ? await deflateAside(payload) : deflateSync(payload);
	const pays = smaller.length < payload.length;
	return { type: RecordType.call, deflated: pays, payload: pays ? smaller : payload };
}

function inflated(record: TraceRecord): Buffer {
	return record.deflated
		? inflateSync(record.payload, { maxOutputLength: MAX_PAYLOAD_BYTES })
		: record.payload;
}
