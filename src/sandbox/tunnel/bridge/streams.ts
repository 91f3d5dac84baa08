import { closeSync, readSync } from "node:fs";
import type { Socket } from "node:net";
import { duplicate, endSending } from "../../box/init/libc.ts";
import { CHUNK_BYTES, type Door, FRAME, WINDOW_BYTES } from "../wire.ts";

/** How long the box may go on reading what was sent before the host hung up. */
const HANG_UP_MS = 30_000;
const NOTHING = Buffer.alloc(0);

/** Takes a frame for the host; false while the host is not keeping up. */
export type Send = (type: number, stream: number, payload: Uint8Array) => boolean;

/** The box's connections, by the numbers they have in the tunnel. */
export class Streams {
	readonly #streams = new Map<number, BridgedStream>();
	readonly #send: Send;
	#last = 0;

	constructor(send: Send) {
		this.#send = send;
	}

	/** Each door has room of its own, so that no crowd at one keeps anybody from another. */
	admit(door: Door, socket: Socket, room: number): void {
		const there = [...this.#streams.values()].filter((stream) => stream.door === door);
		if (there.length >= room) {
			socket.destroy();
			return;
		}
		this.#last += 1;
		const id = this.#last;
		const stream = new BridgedStream(id, door, socket, this.#send, () => this.#streams.delete(id));
		this.#streams.set(id, stream);
		this.#send(FRAME.open, id, Buffer.from(door));
		stream.carry();
	}

	/** What the host says about one of them. */
	take(type: number, id: number, payload: Buffer): void {
		this.#streams.get(id)?.take(type, payload);
	}

	/** The host keeps up again. */
	pullAll(): void {
		for (const stream of this.#streams.values()) stream.pull();
	}

	destroyAll(): void {
		for (const stream of this.#streams.values()) stream.destroy();
	}
}

class BridgedStream {
	readonly door: Door;
	readonly #id: number;
	readonly #socket: Socket;
	readonly #send: Send;
	readonly #forget: () => void;
	/** A second descriptor of the socket; less than 0 when it is closed. */
	#spare: number;
	/** What the host has room for. */
	#credit = WINDOW_BYTES;
	/** What the box has been sent since the host was last told that it may send more. */
	#owed = 0;
	/** Writes into the box that are not through. */
	#unsent = 0;
	/** Read from the box and not yet sent. */
	#waiting: Buffer = NOTHING;
	/** How the box ended the stream, and how much of that the host has been told. */
	#over: number | null = null;
	#told: number | null = null;
	/** Nobody on the host listens any more. */
	#discarded = false;
	#hungUp = false;

	constructor(id: number, door: Door, socket: Socket, send: Send, forget: () => void) {
		this.#id = id;
		this.door = door;
		this.#socket = socket;
		this.#send = send;
		this.#forget = forget;
		this.#spare = duplicate((socket as unknown as { _handle: { fd: number } })._handle.fd);
	}

	carry(): void {
		const socket = this.#socket;
		socket.on("data", (chunk: Buffer) => {
			if (this.#discarded) return;
			socket.pause();
			this.#waiting = this.#waiting.length === 0 ? chunk : Buffer.concat([this.#waiting, chunk]);
			this.pull();
		});
		socket.on("drain", () => this.#settle());
		socket.on("end", () => this.#finish(FRAME.end));
		socket.on("error", () => {});
		socket.on("close", () => this.#finish(FRAME.close));
		socket.resume();
	}

	take(type: number, payload: Buffer): void {
		if (type === FRAME.data) this.#deliver(payload);
		if (type === FRAME.credit) {
			this.#credit += payload.readUInt32BE(0);
			this.pull();
		}
		if (type === FRAME.close) this.#discard();
		if (type === FRAME.end || type === FRAME.close) this.#hangUp();
	}

	/** What the host has room for goes out; the socket is read again when nothing is left over. */
	pull(): void {
		let keepsUp = true;
		while (keepsUp && this.#waiting.length > 0 && this.#credit > 0) {
			const part = this.#waiting.subarray(0, Math.min(this.#credit, CHUNK_BYTES));
			this.#waiting = this.#waiting.subarray(part.length);
			this.#credit -= part.length;
			keepsUp = this.#send(FRAME.data, this.#id, part);
		}
		if (this.#waiting.length > 0) return;
		if (this.#over !== null) this.#conclude(this.#over);
		else this.#socket.resume();
	}

	destroy(): void {
		this.#socket.destroy();
	}

	/** The end of a stream is told after all of its data. */
	#finish(type: number): void {
		this.#readRest();
		if (this.#over !== FRAME.close) this.#over = type;
		this.pull();
	}

	#conclude(over: number): void {
		if (this.#told === over) return;
		this.#told = over;
		this.#send(over, this.#id, NOTHING);
		if (over === FRAME.close) this.#forget();
	}

	/**
	 * When the other end closes a socket that is paused, this runtime drops what it has not read yet; through a second
	 * descriptor it can still be had. At most what the kernel holds for one socket.
	 */
	#readRest(): void {
		if (this.#spare < 0) return;
		const rest = [this.#waiting];
		try {
			for (;;) {
				const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
				const length = readSync(this.#spare, buffer, 0, buffer.length, null);
				if (length === 0) break;
				rest.push(buffer.subarray(0, length));
			}
		} catch {
			// Nothing is left, or we hung up first.
		}
		closeSync(this.#spare);
		this.#spare = -1;
		if (!this.#discarded) this.#waiting = Buffer.concat(rest);
	}

	/** What the box still says is read and dropped, so that its end is noticed. */
	#discard(): void {
		this.#discarded = true;
		this.#waiting = NOTHING;
		this.#socket.resume();
	}

	#deliver(payload: Buffer): void {
		this.#owed += payload.length;
		if (this.#socket.destroyed) {
			this.#settle();
			return;
		}
		this.#unsent += 1;
		const keepsUp = this.#socket.write(payload, () => {
			this.#unsent -= 1;
			if (this.#hungUp) this.#shutDown();
		});
		if (keepsUp) this.#settle();
	}

	#hangUp(): void {
		if (this.#hungUp) return;
		this.#hungUp = true;
		this.#shutDown();
		setTimeout(() => this.#socket.destroy(), HANG_UP_MS).unref();
	}

	/** Only our half, once all is sent: the init may be reading slowly, and a full close would cost it the rest. */
	#shutDown(): void {
		if (this.#unsent === 0 && this.#spare >= 0) endSending(this.#spare);
	}

	/** The box has taken what it was sent: the host may send as much again. */
	#settle(): void {
		if (this.#owed === 0) return;
		const credit = Buffer.alloc(4);
		credit.writeUInt32BE(this.#owed, 0);
		this.#owed = 0;
		this.#send(FRAME.credit, this.#id, credit);
	}
}
