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

/** The same on its way out: its objects were written as JSON before, to be known by that. */
export interface WrittenPayload extends Omit<CallPayload, "head"> {
	head: Omit<CallHead, "objects">;
	objects: string[];
}

/** A call may be megabytes: each part is written once, into the one buffer there is. */
export function encodePayload({
	head,
	objects,
	promptTail,
	completionIds,
	logprobs,
}: WrittenPayload): Buffer {
	const { slot, base, ...rest } = head;
	const texts = [
		`{"slot":${slot},"base":${base},"objects":[`,
		...objects.flatMap((json, at) => (at === 0 ? [json] : [",", json])),
		`],${JSON.stringify(rest).slice(1)}`,
	];
	const planes = [promptTail, completionIds, logprobs];
	const headBytes = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
	const bytes = Buffer.allocUnsafe(planes.reduce((sum, words) => sum + words.byteLength, 4 + headBytes));
	let at = bytes.writeUInt32LE(headBytes);
	for (const text of texts) at += bytes.write(text, at);
	for (const words of planes) at += writePlanes(words, bytes.subarray(at));
	return bytes;
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
function writePlanes(words: Int32Array | Float32Array, planes: Buffer): number {
	const bytes = new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
	for (let at = 0; at < bytes.length; at++) planes[(at & 3) * words.length + (at >> 2)] = bytes[at]!;
	return bytes.length;
}

function fromPlanes(planes: Buffer): ArrayBuffer {
	const bytes = new Uint8Array(planes.length);
	const words = planes.length / 4;
	for (let at = 0; at < bytes.length; at++) bytes[at] = planes[(at & 3) * words + (at >> 2)]!;
	return bytes.buffer;
}
