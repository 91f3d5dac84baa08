import type { Duplex, Writable } from "node:stream";
import { messageOf, RolloutError } from "../../errors.ts";
import type { ExecOptions } from "../sandbox.ts";
import { encodeFrame, TO_BOX } from "./wire.ts";

const CHUNK_BYTES = 64 * 1024;
/** Small frames travel together: each write of its own costs more than its bytes. */
const BATCH_BYTES = 128 * 1024;

/** Input on its way into the box. */
export interface Sending {
	/** What broke on our side, such as the stream it came from. */
	failed: RolloutError | null;
	cancel(): void;
}

/** An operation may end without reading its input, so what is left unsent is no error. */
export function sendFrames(connection: Duplex, frames: AsyncIterable<Buffer> | Iterable<Buffer>): Sending {
	let cancelled = false;
	const sending: Sending = {
		failed: null,
		cancel: () => {
			cancelled = true;
		},
	};
	const send = async () => {
		for await (const batch of batchesOf(frames)) {
			if (cancelled || connection.destroyed) return;
			if (!connection.write(batch)) await drainOrClose(connection);
		}
	};
	send().catch((error) => {
		sending.failed = new RolloutError("sandbox", "input_failed", `the input broke off: ${messageOf(error)}`);
		connection.destroy();
	});
	return sending;
}

/** A command's input, and its end. */
export async function* stdinFrames(stdin: ExecOptions["stdin"]): AsyncGenerator<Buffer> {
	if (stdin === undefined) return;
	if (typeof stdin === "string") yield* inputFrames(Buffer.from(stdin));
	else if (stdin instanceof Uint8Array) yield* inputFrames(stdin);
	else for await (const chunk of stdin) yield* inputFrames(Buffer.from(chunk));
	yield encodeFrame(TO_BOX.stdinEnd, "");
}

export function* inputFrames(bytes: Uint8Array): Generator<Buffer> {
	for (let at = 0; at < bytes.length; at += CHUNK_BYTES)
		yield encodeFrame(TO_BOX.stdin, bytes.subarray(at, at + CHUNK_BYTES));
}

/** What comes at once goes at once; nothing is held back for what is yet to come. */
async function* batchesOf(frames: AsyncIterable<Buffer> | Iterable<Buffer>): AsyncGenerator<Buffer> {
	if (Symbol.asyncIterator in frames) {
		yield* frames;
		return;
	}
	let batch: Buffer[] = [];
	let size = 0;
	for (const frame of frames) {
		batch.push(frame);
		size += frame.length;
		if (size < BATCH_BYTES) continue;
		yield Buffer.concat(batch);
		batch = [];
		size = 0;
	}
	if (size > 0) yield Buffer.concat(batch);
}

/** Until `to` takes more, or it or `other` is gone. */
export function drainOrClose(to: Writable, other: Writable = to): Promise<void> {
	return new Promise((resolve) => {
		const done = () => {
			to.removeListener("drain", done);
			to.removeListener("close", done);
			other.removeListener("close", done);
			resolve();
		};
		to.on("drain", done);
		to.on("close", done);
		if (other !== to) other.on("close", done);
	});
}
