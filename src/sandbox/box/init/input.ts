import { closeSync, writeSync } from "node:fs";
import { sleepUntilReady, wake } from "./readiness.ts";

/**
 * A command's input: our end of its pipe, written by hand. This runtime's own writers drop what they have not yet
 * written when they are ended, so none of them stands between the host and the command.
 */
export class Input {
	readonly #descriptor: number;
	#open = true;

	constructor(descriptor: number) {
		this.#descriptor = descriptor;
	}

	/** Resolves when the pipe has taken everything, or when nobody will read it any more. */
	async write(bytes: Uint8Array): Promise<void> {
		for (let at = 0; this.#open && at < bytes.length; ) {
			const count = this.#writeSome(bytes.subarray(at));
			at += count;
			if (count === 0 && this.#open) await sleepUntilReady();
		}
	}

	end(): void {
		if (!this.#open) return;
		this.#open = false;
		closeSync(this.#descriptor);
		wake();
	}

	#writeSome(bytes: Uint8Array): number {
		try {
			return writeSync(this.#descriptor, bytes);
		} catch (error) {
			// A command may end, or close its input, without reading it.
			if ((error as NodeJS.ErrnoException).code !== "EAGAIN") this.end();
			return 0;
		}
	}
}
