import type { RawData, WebSocket } from "ws";
import { MAX_MESSAGE_BYTES } from "../tools/body.ts";

/** A client that asks and never reads would have us keep every answer. */
const MAX_UNREAD_BYTES = 2 * MAX_MESSAGE_BYTES;

export function sendJson(socket: WebSocket, value: unknown): void {
	if (socket.readyState !== socket.OPEN) return;
	if (socket.bufferedAmount > MAX_UNREAD_BYTES) socket.terminate();
	else socket.send(JSON.stringify(value));
}

/** A message as it came; how many pieces it came in does not matter. */
export function toBytes(data: RawData): Buffer {
	if (Array.isArray(data)) return Buffer.concat(data);
	return Buffer.isBuffer(data) ? data : Buffer.from(data);
}
