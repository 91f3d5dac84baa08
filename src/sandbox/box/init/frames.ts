import type { Socket } from "node:net";
import { encodeFrame, FROM_BOX, HEADER_BYTES, type Request } from "../wire.ts";

export const FRAME_BYTES = 128 * 1024;

/** False when the host is not keeping up. */
export function send(connection: Socket, type: number, payload: string | Uint8Array): boolean {
	return connection.destroyed || connection.write(encodeFrame(type, payload));
}

/** Piece by piece, each when the one before has left: this runtime is slow with much to send at once. */
export async function sendAll(connection: Socket, type: number, bytes: Uint8Array): Promise<void> {
	for (let at = 0; at < bytes.length; at += FRAME_BYTES) {
		if (!send(connection, type, bytes.subarray(at, at + FRAME_BYTES))) await drained(connection);
	}
}

/** The last word of an operation that did what it was asked for. */
export function finish(connection: Socket, result: Record<string, unknown>): void {
	send(connection, FROM_BOX.result, JSON.stringify(result));
	leave(connection);
}

export function fail(connection: Socket, error: unknown): void {
	const { code = "EIO", message } = error as NodeJS.ErrnoException;
	send(connection, FROM_BOX.failed, JSON.stringify({ code, message }));
	leave(connection);
}

/** The host hangs up once it has read the last word; hanging up first, with input unread, could cost it that word. */
function leave(connection: Socket): void {
	connection.removeAllListeners("data");
	connection.on("data", () => {});
	connection.on("end", () => connection.destroy());
	connection.resume();
}

export function drained(connection: Socket): Promise<void> {
	return new Promise((succeed) => {
		const done = () => {
			connection.removeListener("drain", done);
			connection.removeListener("close", done);
			succeed();
		};
		connection.on("drain", done);
		connection.on("close", done);
	});
}

/** One frame at a time, each when the one before is dealt with; nothing is read ahead of that. */
export function onFrames(
	connection: Socket,
	rest: Buffer,
	handle: (type: number, payload: Buffer) => Promise<void>,
): void {
	let pending = rest;
	let busy = false;
	const next = () => {
		const length = pending.length < HEADER_BYTES ? 0 : HEADER_BYTES + pending.readUInt32BE(1);
		if (length === 0 || pending.length < length) return null;
		const frame = pending.subarray(0, length);
		pending = pending.subarray(length);
		return frame;
	};
	const take = async () => {
		if (busy) return;
		busy = true;
		for (let frame = next(); frame !== null; frame = next()) {
			await handle(frame.readUInt8(0), frame.subarray(HEADER_BYTES));
		}
		busy = false;
		connection.resume();
	};
	connection.on("data", (chunk: Buffer) => {
		pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
		connection.pause();
		void take();
	});
	void take();
}

export function onRequest(connection: Socket, handle: (request: Request, rest: Buffer) => void): void {
	let pending = Buffer.alloc(0);
	const listen = (chunk: Buffer) => {
		pending = Buffer.concat([pending, chunk]);
		if (pending.length < HEADER_BYTES || pending.length < HEADER_BYTES + pending.readUInt32BE(1)) return;
		connection.removeListener("data", listen);
		connection.pause();
		const end = HEADER_BYTES + pending.readUInt32BE(1);
		handle(JSON.parse(pending.subarray(HEADER_BYTES, end).toString()), pending.subarray(end));
	};
	connection.on("data", listen);
}

export function onLines(connection: Socket, handle: (line: string) => void): void {
	let pending = "";
	connection.on("data", (chunk: Buffer) => {
		pending += chunk.toString();
		const lines = pending.split("\n");
		pending = lines.pop() ?? "";
		for (const line of lines) handle(line);
	});
}
