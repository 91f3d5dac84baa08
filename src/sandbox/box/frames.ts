import type { Duplex } from "node:stream";
import { RolloutError } from "../../errors.ts";
import { HEADER_BYTES } from "./wire.ts";

/** The box is hostile: no frame or line may make the host hold more than this. */
const MAX_FRAME_BYTES = 4 * 1024 * 1024;
const MAX_LINE_BYTES = 16 * 1024;

export interface Frame {
	type: number;
	payload: Buffer;
}

/** Frames as they come; nothing is read ahead of the consumer, so back-pressure reaches the box. */
export async function* readFrames(connection: Duplex): AsyncGenerator<Frame, void> {
	for (;;) {
		const frame = await readFrame(connection);
		if (frame === null) return;
		yield frame;
	}
}

/** The next frame, or null at the end. What follows it stays in the stream. */
export async function readFrame(connection: Duplex): Promise<Frame | null> {
	const header = await readExactly(connection, HEADER_BYTES);
	if (header === null) return null;
	const length = header.readUInt32BE(1);
	if (length > MAX_FRAME_BYTES) {
		connection.destroy();
		throw new RolloutError("sandbox", "bad_frame", `the box announced a frame of ${length} bytes`);
	}
	const payload = length === 0 ? Buffer.alloc(0) : await readExactly(connection, length);
	return payload === null ? null : { type: header.readUInt8(0), payload };
}

/** The first line, without its end; null when the peer hangs up or says too much. */
export async function readLine(connection: Duplex): Promise<string | null> {
	const bytes: Buffer[] = [];
	for (let total = 0; total < MAX_LINE_BYTES; total += 1) {
		const byte = await readExactly(connection, 1);
		if (byte === null) return null;
		if (byte[0] === 0x0a) return Buffer.concat(bytes).toString("utf8");
		bytes.push(byte);
	}
	return null;
}

function readExactly(connection: Duplex, length: number): Promise<Buffer | null> {
	const ready = connection.read(length) as Buffer | null;
	if (ready !== null) return Promise.resolve(ready.length === length ? ready : null);
	return new Promise((resolve) => {
		const finish = (value: Buffer | null) => {
			connection.removeListener("readable", attempt);
			connection.removeListener("end", ended);
			connection.removeListener("close", ended);
			resolve(value);
		};
		const attempt = () => {
			const chunk = connection.read(length) as Buffer | null;
			if (chunk !== null) finish(chunk.length === length ? chunk : null);
		};
		const ended = () => finish(null);
		if (connection.readableEnded || connection.destroyed) return resolve(null);
		connection.on("readable", attempt);
		connection.on("end", ended);
		connection.on("close", ended);
	});
}
