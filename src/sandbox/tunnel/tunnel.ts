import { fileURLToPath } from "node:url";
import { RolloutError } from "../../errors.ts";
import { joinModules } from "../box/join-modules.ts";
import type { Doors } from "../box/launch.ts";
import { TunnelStream } from "./stream.ts";
import { type BridgeOrder, type Door, encodeTunnelFrame, FRAME, FRAME_HEADER_BYTES } from "./wire.ts";

const BRIDGE_ENTRY = fileURLToPath(new URL("./bridge/main.ts", import.meta.url));
let bridge: Buffer | undefined;

/** The program at the other end of every tunnel. */
export function bridgeProgram(): Buffer {
	bridge ??= Buffer.from(joinModules(BRIDGE_ENTRY));
	return bridge;
}

/** The other end may be hostile: more than this is no frame of the bridge's. */
const MAX_FRAME_BYTES = 256 * 1024;
const PING_EVERY_MS = 5_000;
/** A guardian that has heard nothing for so long ends its box; a host that has, gives it up. */
export const SILENCE_MS = 60_000;

/** Takes bytes for the other end; they arrive in order. */
export type Transport = (bytes: Buffer) => void;

/** The host's end: turns what the bridge says into connections at the box's doors. */
export class Tunnel {
	/** Resolves with the box's last words when the tunnel is over, however that came about. */
	readonly ended: Promise<string>;
	readonly #transport: Transport;
	readonly #doors: Doors;
	readonly #streams = new Map<number, { door: Door; stream: TunnelStream }>();
	readonly #room: Record<Door, number>;
	readonly #pings: NodeJS.Timeout;
	#end!: (words: string) => void;
	#over = false;
	#pending: Buffer = Buffer.alloc(0);
	#heardAt = Date.now();

	constructor(transport: Transport, doors: Doors, order: BridgeOrder) {
		this.#transport = transport;
		this.#doors = doors;
		this.#room = order.room;
		this.ended = new Promise((resolve) => {
			this.#end = resolve;
		});
		this.#send(FRAME.start, 0, Buffer.from(JSON.stringify(order)));
		this.#pings = setInterval(() => this.#ping(), PING_EVERY_MS);
		this.#pings.unref();
	}

	/** Asks the bridge to end the box. */
	kill(): void {
		this.#send(FRAME.kill, 0, Buffer.alloc(0));
	}

	/** Bytes from the other end. */
	receive(bytes: Buffer): void {
		this.#heardAt = Date.now();
		this.#pending = this.#pending.length === 0 ? bytes : Buffer.concat([this.#pending, bytes]);
		while (!this.#over && this.#pending.length >= FRAME_HEADER_BYTES) {
			const length = this.#pending.readUInt32BE(5);
			if (length > MAX_FRAME_BYTES) {
				this.close("the bridge broke its own rules");
				return;
			}
			if (this.#pending.length < FRAME_HEADER_BYTES + length) return;
			const frame = this.#pending.subarray(0, FRAME_HEADER_BYTES + length);
			this.#pending = this.#pending.subarray(FRAME_HEADER_BYTES + length);
			this.#take(frame.readUInt8(0), frame.readUInt32BE(1), frame.subarray(FRAME_HEADER_BYTES));
		}
	}

	/** The transport is gone, or should be. */
	close(words: string): void {
		if (this.#over) return;
		this.#over = true;
		clearInterval(this.#pings);
		for (const { stream } of this.#streams.values()) {
			stream.hangUp();
			stream.destroy();
		}
		this.#streams.clear();
		this.#end(words);
	}

	#take(type: number, id: number, payload: Buffer): void {
		if (type === FRAME.open) this.#admit(id, payload.toString("latin1") as Door);
		if (type === FRAME.words) this.close(lastWords(payload.toString("utf8")));
		const stream = this.#streams.get(id)?.stream;
		if (stream === undefined) return;
		if (type === FRAME.data) stream.arrive(payload);
		if (type === FRAME.credit && payload.length === 4) stream.allow(payload.readUInt32BE(0));
		if (type === FRAME.end) stream.finish();
		if (type === FRAME.close) {
			this.#streams.delete(id);
			stream.hangUp();
		}
	}

	/** Each door has room of its own; each stream may hold a window of the host's memory. */
	#admit(id: number, door: Door): void {
		const none = Buffer.alloc(0);
		const there = [...this.#streams.values()].filter((one) => one.door === door);
		if (there.length >= (this.#room[door] ?? 0) || this.#streams.has(id)) {
			this.#send(FRAME.close, id, none);
			return;
		}
		const stream = new TunnelStream({
			data: (chunk) => this.#send(FRAME.data, id, chunk),
			credit: (bytes) => this.#send(FRAME.credit, id, uint32(bytes)),
			end: () => this.#send(FRAME.end, id, none),
			close: () => {
				if (this.#streams.delete(id)) this.#send(FRAME.close, id, none);
			},
		});
		this.#streams.set(id, { door, stream });
		stream.on("error", () => stream.destroy());
		if (door === "control") this.#doors.acceptControl(stream);
		else if (door === "gateway") this.#doors.acceptGateway(stream);
		else this.#doors.acceptEgress(stream);
	}

	#ping(): void {
		if (Date.now() - this.#heardAt > SILENCE_MS) this.close("the machine of the box fell silent");
		else this.#send(FRAME.ping, 0, Buffer.alloc(0));
	}

	#send(type: number, id: number, payload: Buffer): void {
		if (this.#over) return;
		this.#transport(encodeTunnelFrame(type, id, payload));
	}
}

/** Stdout that passes only text carries one frame per line. */
export class LineDecoder {
	#pending = "";

	decode(text: string): Buffer[] {
		this.#pending += text;
		const lines = this.#pending.split("\n");
		this.#pending = lines.pop() ?? "";
		if (this.#pending.length > 2 * MAX_FRAME_BYTES) {
			throw new RolloutError("sandbox", "bad_frame", "the bridge sent a line without end");
		}
		return lines.filter((line) => line !== "").map((line) => Buffer.from(line, "base64"));
	}
}

function lastWords(text: string): string {
	const lines = text.trim().split("\n");
	const words = lines.find((line) => line.startsWith("error:")) ?? lines.at(-1);
	return words ? `the box ended: ${words.slice(0, 500)}` : "the box ended";
}

function uint32(value: number): Buffer {
	const bytes = Buffer.alloc(4);
	bytes.writeUInt32BE(value, 0);
	return bytes;
}
