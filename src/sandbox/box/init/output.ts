import { closeSync } from "node:fs";
import type { Socket } from "node:net";
import { drained, FRAME_BYTES, send } from "./frames.ts";
import { readInto, waitingBytes } from "./libc.ts";
import { sleepUntilReady, wake } from "./readiness.ts";

const scratch = Buffer.alloc(FRAME_BYTES);

/** One of a command's two outputs: our end of its pipe, read by hand. */
export class Output {
	readonly #type: number;
	readonly #descriptor: number;
	#open = true;
	#ended = false;
	#sending = false;

	constructor(type: number, descriptor: number) {
		this.#type = type;
		this.#descriptor = descriptor;
	}

	/** Nobody can write to it any more, and all that was written is sent. */
	get ended(): boolean {
		return this.#ended;
	}

	/** Whether output is on its way to the host, or waits in the pipe on a machine too busy to have read it. */
	get sending(): boolean {
		return this.#sending;
	}

	get hasMore(): boolean {
		return this.#open && waitingBytes(this.#descriptor) > 0;
	}

	/**
	 * Reads no further while the host is behind, so that the pipe fills and the command waits. This runtime's own
	 * readers take all there is into memory, which is why the pipe is read by hand, whenever the kernel's signal says
	 * that there is something to read.
	 */
	async relay(connection: Socket, changed: () => void): Promise<void> {
		while (this.#open) {
			const count = readInto(this.#descriptor, scratch);
			if (count === 0) break;
			if (count < 0) {
				await sleepUntilReady();
				continue;
			}
			this.#sending = true;
			changed();
			if (!send(connection, this.#type, scratch.subarray(0, count))) await drained(connection);
			else await new Promise(setImmediate);
			this.#sending = false;
			changed();
		}
		this.#ended = true;
		changed();
	}

	close(): void {
		if (!this.#open) return;
		this.#open = false;
		closeSync(this.#descriptor);
		wake();
	}
}
