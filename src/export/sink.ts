import { once } from "node:events";
import { open, rename, rm } from "node:fs/promises";
import type { Writable } from "node:stream";
import { messageOf, UsageError } from "../errors.ts";

/** Where rows go. `close` makes the result visible; disposing without it leaves nothing behind. */
export interface RowSink<T> extends AsyncDisposable {
	write(row: T): Promise<void>;
	close(): Promise<void>;
}

/** A file that appears under its name only when it is whole, or a stream that is left open. */
export class Destination implements AsyncDisposable {
	readonly stream: Writable;
	readonly #path: string | null;
	#failure: Error | null = null;

	static async open(target: Writable | string): Promise<Destination> {
		if (typeof target !== "string") return new Destination(target, null);
		const file = await open(partial(target), "w").catch((error) => {
			throw new UsageError(`cannot write ${target}: ${messageOf(error)}`, "export_destination");
		});
		return new Destination(file.createWriteStream(), target);
	}

	private constructor(stream: Writable, path: string | null) {
		this.stream = stream;
		this.#path = path;
		stream.on("error", this.#onError);
	}

	/** Waits while the stream is full. */
	async write(chunk: string): Promise<void> {
		if (this.#failure) throw this.#failure;
		if (this.stream.destroyed) throw goneAway();
		if (!this.stream.write(chunk)) await drained(this.stream);
	}

	async commit(): Promise<void> {
		if (this.#failure) throw this.#failure;
		if (this.#path === null) return;
		this.stream.end();
		if (!this.stream.closed) await once(this.stream, "close");
		await rename(partial(this.#path), this.#path);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		if (this.#path === null) {
			this.stream.off("error", this.#onError);
			return;
		}
		this.stream.destroy();
		if (!this.stream.closed) await new Promise((closed) => this.stream.once("close", closed));
		await rm(partial(this.#path), { force: true });
	}

	#onError = (error: Error) => {
		this.#failure ??= error;
	};
}

/** One JSON object per line. */
export class LineSink implements RowSink<unknown> {
	readonly #destination: Destination;

	constructor(destination: Destination) {
		this.#destination = destination;
	}

	async write(row: unknown): Promise<void> {
		await this.#destination.write(`${JSON.stringify(row)}\n`);
	}

	async close(): Promise<void> {
		await this.#destination.commit();
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#destination[Symbol.asyncDispose]();
	}
}

/** Room for more; throws when the stream fails or closes before there is. */
async function drained(stream: Writable): Promise<void> {
	const settled = new AbortController();
	const { signal } = settled;
	const closed = once(stream, "close", { signal }).then(() => {
		throw goneAway();
	});
	try {
		await Promise.race([once(stream, "drain", { signal }), closed]);
	} finally {
		settled.abort();
	}
}

function goneAway(): Error {
	return new Error("whoever was reading the export went away");
}

function partial(path: string): string {
	return `${path}.partial`;
}
