import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";

/** Where rows go. `close` makes the result visible; disposing without it leaves nothing behind. */
export interface RowSink<T> extends AsyncDisposable {
	write(row: T): Promise<void>;
	close(): Promise<void>;
}

/** One JSON object per line. A file appears under its name only when it is whole; a stream is left open. */
export class LineSink implements RowSink<unknown> {
	readonly #stream: Writable;
	readonly #path: string | null;
	#failure: Error | null = null;

	constructor(destination: Writable | string) {
		this.#path = typeof destination === "string" ? destination : null;
		this.#stream = typeof destination === "string" ? createWriteStream(partial(destination)) : destination;
		this.#stream.on("error", this.#onError);
	}

	async write(row: unknown): Promise<void> {
		if (this.#failure) throw this.#failure;
		if (this.#stream.destroyed) throw new Error("whoever was reading the export went away");
		if (!this.#stream.write(`${JSON.stringify(row)}\n`)) await drained(this.#stream);
	}

	async close(): Promise<void> {
		if (this.#failure) throw this.#failure;
		if (this.#path === null) return;
		this.#stream.end();
		await once(this.#stream, "close");
		await rename(partial(this.#path), this.#path);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#stream.off("error", this.#onError);
		if (this.#path === null) return;
		// A second error has nobody left to hear it; the first one was thrown by write or close.
		this.#stream.on("error", () => {});
		this.#stream.destroy();
		await rm(partial(this.#path), { force: true });
	}

	#onError = (error: Error) => {
		this.#failure = error;
	};
}

/** Brings a finished file to its place. */
export async function deliver(file: string, destination: Writable | string): Promise<void> {
	if (typeof destination !== "string") return pipeline(createReadStream(file), destination, { end: false });
	try {
		await pipeline(createReadStream(file), createWriteStream(partial(destination)));
		await rename(partial(destination), destination);
	} finally {
		await rm(partial(destination), { force: true });
	}
}

/** Room for more; throws when the stream fails or closes before there is. */
async function drained(stream: Writable): Promise<void> {
	const settled = new AbortController();
	const { signal } = settled;
	const closed = once(stream, "close", { signal }).then(() => {
		throw new Error("whoever was reading the export went away");
	});
	try {
		await Promise.race([once(stream, "drain", { signal }), closed]);
	} finally {
		settled.abort();
	}
}

function partial(path: string): string {
	return `${path}.partial`;
}
