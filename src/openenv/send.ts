import type { WebSocket } from "ws";
import { MAX_MESSAGE_BYTES } from "../tools/body.ts";

/** A client that asks and never reads would have us keep every answer. */
const MAX_UNREAD_BYTES = 2 * MAX_MESSAGE_BYTES;

export function sendJson(socket: WebSocket, value: unknown): void {
	if (socket.readyState !== socket.OPEN) return;
	if (socket.bufferedAmount > MAX_UNREAD_BYTES) socket.terminate();
	else socket.send(JSON.stringify(value));
}
