/**
 * The other end of a tunnel, on a machine the host shares no files with; run by the agent's own binary acting as
 * Bun. It starts the box, listens where the box's init connects to, and carries those connections over its own
 * stdin and stdout. It is also the box's guardian: when the host says so, hangs up or falls silent, the box ends.
 *
 * argv[2]: "binary", or "lines" where stdout passes only text (one base64 line per frame).
 */

import { type BridgeOrder, encodeTunnelFrame, FRAME, FRAME_HEADER_BYTES } from "../wire.ts";
import { Guarded } from "./guarded.ts";
import { Streams } from "./streams.ts";

/** For a host that never says anything. */
const FIRST_SILENCE_MS = 60_000;

const asLines = process.argv[2] === "lines";
const streams = new Streams(send);
let guarded: Guarded | null = null;
let heardAt = Date.now();
let left = false;

readFrames((type, stream, payload) => {
	heardAt = Date.now();
	if (type === FRAME.start) begin(JSON.parse(payload.toString()));
	else if (type === FRAME.ping) send(FRAME.pong, 0, payload);
	else if (type === FRAME.kill) end();
	else streams.take(type, stream, payload);
});
for (const event of ["end", "close", "error"]) process.stdin.on(event, end);
process.stdout.on("error", end);
process.stdout.on("drain", () => streams.pullAll());
for (const name of ["SIGTERM", "SIGHUP", "SIGINT"]) process.on(name, end);
setInterval(() => {
	if (Date.now() - heardAt > (guarded?.order.silenceMs ?? FIRST_SILENCE_MS)) end();
}, 1_000);

function begin(order: BridgeOrder): void {
	guarded = new Guarded(order, leave);
	guarded.open((door, socket) => streams.admit(door, socket, order.room[door]));
}

function end(): void {
	if (guarded === null) leave("");
	else guarded.end(() => streams.destroyAll());
}

/** The last frame is out before the end is. */
function leave(words: string): void {
	if (left) return;
	left = true;
	const done = () => process.exit(0);
	setTimeout(done, 2_000);
	write(encodeTunnelFrame(FRAME.words, 0, Buffer.from(words)), done);
}

/** False while the host is not keeping up. */
function send(type: number, stream: number, payload: Uint8Array): boolean {
	if (!left) write(encodeTunnelFrame(type, stream, payload));
	return !process.stdout.writableNeedDrain;
}

function write(frame: Buffer, done?: () => void): void {
	process.stdout.write(asLines ? `${frame.toString("base64")}\n` : frame, done);
}

function readFrames(handle: (type: number, stream: number, payload: Buffer) => void): void {
	let pending: Buffer = Buffer.alloc(0);
	process.stdin.on("data", (chunk: Buffer) => {
		pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
		while (pending.length >= FRAME_HEADER_BYTES) {
			const end = FRAME_HEADER_BYTES + pending.readUInt32BE(5);
			if (pending.length < end) return;
			const frame = pending.subarray(0, end);
			pending = pending.subarray(end);
			handle(frame.readUInt8(0), frame.readUInt32BE(1), frame.subarray(FRAME_HEADER_BYTES));
		}
	});
}
