import type { Readable } from "node:stream";

/** Keeps the end of a log in bounded memory. */
export class LogTail {
	readonly #limit: number;
	#text = "";

	constructor(limit = 64_000) {
		this.#limit = limit;
	}

	follow(source: Readable): void {
		source.setEncoding("utf8").on("data", (chunk: string) => this.add(chunk));
		// A log that breaks off is not a reason to fail; whoever waits for the process learns its end.
		source.on("error", (error) => this.add(`\n[log ended: ${error.message}]\n`));
	}

	add(text: string): void {
		this.#text += text;
		if (this.#text.length > this.#limit * 2) this.#text = this.#text.slice(-this.#limit);
	}

	tail(characters: number): string {
		return this.#text.slice(-Math.min(characters, this.#limit));
	}
}
