import { z } from "zod";
import { RolloutError } from "../../errors.ts";
import { ModelCall } from "../../model/call.ts";

/** What is kept of a call besides its token arrays: everything small, as JSON. */
const CallRest = ModelCall.omit({
	superseded: true,
	request: true,
	response: true,
	promptIds: true,
	completionIds: true,
	logprobs: true,
}).extend({
	params: ModelCall.shape.request.shape.params,
	patch: ModelCall.shape.request.shape.patch,
	finishReason: ModelCall.shape.response.shape.finishReason,
});
export type CallRest = z.infer<typeof CallRest>;

const count = z.int().min(0);

/** The JSON head of a call's payload; docs/trace.md explains each field. */
const CallHead = z.object({
	slot: count,
	base: count.nullable(),
	objects: z.array(z.unknown()),
	messages: z.object({ keep: count, add: z.array(count) }),
	tools: z.object({ keep: count, add: z.array(count) }),
	reply: count.nullable(),
	promptIds: z.object({ keep: count, add: count }),
	completionIds: count,
	logprobs: count,
	call: CallRest,
});
export type CallHead = z.infer<typeof CallHead>;

export interface CallPayload {
	head: CallHead;
	promptTail: Int32Array;
	completionIds: Int32Array;
	logprobs: Float32Array;
}

export function encodePayload(payload: CallPayload): Buffer {
	const head = Buffer.from(JSON.stringify(payload.head));
	const size = Buffer.alloc(4);
	size.writeUInt32LE(head.length);
	return Buffer.concat([
		size,
		head,
		toPlanes(payload.promptTail),
		toPlanes(payload.completionIds),
		toPlanes(payload.logprobs),
	]);
}

export function decodePayload(bytes: Buffer): CallPayload {
	const headEnd = 4 + bytes.readUInt32LE(0);
	const head = CallHead.parse(JSON.parse(bytes.toString("utf8", 4, headEnd)));
	const promptEnd = headEnd + 4 * head.promptIds.add;
	const completionEnd = promptEnd + 4 * head.completionIds;
	return {
		head,
		promptTail: new Int32Array(fromPlanes(bytes.subarray(headEnd, promptEnd))),
		completionIds: new Int32Array(fromPlanes(bytes.subarray(promptEnd, completionEnd))),
		logprobs: new Float32Array(fromPlanes(bytes.subarray(completionEnd, completionEnd + 4 * head.logprobs))),
	};
}

export function toInt32(ids: number[]): Int32Array {
	const words = new Int32Array(ids.length);
	for (let at = 0; at < words.length; at++) {
		const id = ids[at]!;
		if ((id | 0) !== id)
			throw new RolloutError("provider", "bad_token_id", `the engine sent ${id} as a token id`);
		words[at] = id;
	}
	return words;
}

/** All lowest bytes first, then all second bytes, …: the upper bytes of ids are nearly constant and deflate to nothing. */
function toPlanes(words: Int32Array | Float32Array): Buffer {
	const bytes = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
	const planes = Buffer.allocUnsafe(bytes.length);
	for (let at = 0; at < bytes.length; at++) planes[(at & 3) * words.length + (at >> 2)] = bytes[at]!;
	return planes;
}

function fromPlanes(planes: Buffer): ArrayBuffer {
	const bytes = new Uint8Array(planes.length);
	const words = planes.length / 4;
	for (let at = 0; at < bytes.length; at++) bytes[at] = planes[(at & 3) * words + (at >> 2)]!;
	return bytes.buffer;
}
