/**
 * What the two ends of a tunnel say to each other. Both are written against this file, which stands alone: it travels
 * to the other machine with the bridge.
 */
export const FRAME = {
	start: 0,
	open: 1,
	data: 2,
	end: 3,
	close: 4,
	credit: 5,
	ping: 6,
	pong: 7,
	kill: 8,
	words: 9,
} as const;

/** Type, stream and length. */
export const FRAME_HEADER_BYTES = 9;
/** How much either end may send on a stream before the other has taken it. */
export const WINDOW_BYTES = 1024 * 1024;
export const CHUNK_BYTES = 64 * 1024;

export type Door = "control" | "gateway" | "egress";

/** What the bridge is told to do, as its first frame. */
export interface BridgeOrder {
	/** The box's own folder over there; removed at its end. */
	folder: string;
	folders: string[];
	/** Name → base64, written into the folder before the box starts. */
	files: Record<string, string>;
	/** Where the init connects to, by door. */
	sockets: Partial<Record<Door, string | undefined>>;
	/** How many connections of the box each door takes at a time. */
	room: Record<Door, number>;
	argv: string[];
	env: Record<string, string>;
	silenceMs: number;
	/** How long the init may clear up before it is killed. */
	patienceMs: number;
	/** The uid the init runs under, where the bridge has more rights than the box. */
	socketOwner?: number | undefined;
}

export function encodeTunnelFrame(type: number, stream: number, payload: Uint8Array): Buffer {
	const frame = Buffer.allocUnsafe(FRAME_HEADER_BYTES + payload.length);
	frame.writeUInt8(type, 0);
	frame.writeUInt32BE(stream, 1);
	frame.writeUInt32BE(payload.length, 5);
	frame.set(payload, FRAME_HEADER_BYTES);
	return frame;
}
