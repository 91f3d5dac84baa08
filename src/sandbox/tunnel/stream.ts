import { Duplex } from "node:stream";
import { CHUNK_BYTES, WINDOW_BYTES } from "./wire.ts";

/** What a stream asks of the tunnel it runs through. */
export interface StreamEnd {
	data(chunk: Buffer): void;
	credit(bytes: number): void;
	end(): void;
	close(): void;
}

/** One connection out of a box, carried by a tunnel. Never holds more than a window in either direction. */
export class TunnelStream extends Duplex {
	readonly #other: StreamEnd;
	readonly #inbox: Buffer[] = [];
	#credit = WINDOW_BYTES;
	#wanted = false;
	#ended = false;
	#gone = false;
	#unsent: { chunk: Buffer; done: () => void } | null = null;

	constructor(other: StreamEnd) {
		super({ allowHalfOpen: true });
		this.#other = other;
	}

	/** From the tunnel: bytes have arrived. */
	arrive(chunk: Buffer): void {
		this.#inbox.push(chunk);
		this.#pass();
	}

	/** From the tunnel: the other end has taken as much. */
	allow(bytes: number): void {
		this.#credit += bytes;
		this.#flush();
	}

	/** From the tunnel: nothing more will come. */
	finish(): void {
		this.#ended = true;
		this.#pass();
	}

	/** From the tunnel: the other end is gone. What it sent can still be read; what is sent to it is lost. */
	hangUp(): void {
		this.#gone = true;
		this.#flush();
		this.finish();
		if (!this.writableEnded) this.end();
	}

	// What node:http asks of the sockets it is given. A tunnel keeps itself alive, delays nothing, and its streams live
	// as long as the box.
	setKeepAlive(): this {
		return this;
	}

	setNoDelay(): this {
		return this;
	}

	setTimeout(): this {
		return this;
	}

	ref(): this {
		return this;
	}

	unref(): this {
		return this;
	}

	override _read(): void {
		this.#wanted = true;
		this.#pass();
	}

	override _write(chunk: Buffer, _encoding: string, done: () => void): void {
		this.#unsent = { chunk, done };
		this.#flush();
	}

	override _final(done: () => void): void {
		if (!this.#gone) this.#other.end();
		done();
	}

	override _destroy(error: Error | null, done: (error: Error | null) => void): void {
		this.#inbox.length = 0;
		this.#unsent = null;
		if (!this.#gone) this.#other.close();
		done(error);
	}

	#pass(): void {
		while (this.#wanted && this.#inbox.length > 0) {
			const chunk = this.#inbox.shift() as Buffer;
			this.#wanted = this.push(chunk);
			if (!this.#gone) this.#other.credit(chunk.length);
		}
		if (!this.#ended || this.#inbox.length > 0) return;
		this.#ended = false;
		this.push(null);
	}

	#flush(): void {
		if (this.#unsent === null) return;
		let { chunk } = this.#unsent;
		while (chunk.length > 0 && this.#credit > 0 && !this.#gone) {
			const part = chunk.subarray(0, Math.min(this.#credit, CHUNK_BYTES));
			this.#credit -= part.length;
			chunk = chunk.subarray(part.length);
			this.#other.data(part);
		}
		if (chunk.length > 0 && !this.#gone) {
			this.#unsent = { ...this.#unsent, chunk };
			return;
		}
		const { done } = this.#unsent;
		this.#unsent = null;
		done();
	}
}
