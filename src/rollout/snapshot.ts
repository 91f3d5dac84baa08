import { randomUUID } from "node:crypto";
import { createReadStream, createWriteStream } from "node:fs";
import { type FileHandle, mkdir, open, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { PassThrough } from "node:stream";
import { finished } from "node:stream/promises";
import type { Sandbox } from "../sandbox/sandbox.ts";

/**
 * What a box's home held at one moment, as a tar in a file without a name: it is gone with the process, whatever happens. It is
 * never unpacked on the host.
 */
export class Snapshot implements AsyncDisposable {
	readonly #file: FileHandle;

	private constructor(file: FileHandle) {
		this.#file = file;
	}

	static async take(box: Sandbox, exclude: readonly string[]): Promise<Snapshot> {
		const file = await openNameless();
		try {
			const written = createWriteStream("", { fd: file.fd, start: 0, autoClose: false });
			await Promise.all([box.pack(written, { exclude }), finished(written)]);
			return new Snapshot(file);
		} catch (error) {
			await file.close();
			throw error;
		}
	}

	stream(): Readable {
		// By number: a stream made by the handle itself would keep it from closing.
		return createReadStream("", { fd: this.#file.fd, start: 0, autoClose: false });
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#file.close();
	}
}

/** Streams `paths` of one box into another; nothing touches the host's disk. */
export async function transfer(from: Sandbox, to: Sandbox, paths: readonly string[]): Promise<void> {
	const pipe = new PassThrough({ highWaterMark: 1024 * 1024 });
	const packed = from.pack(pipe, { paths }).catch((error: Error) => {
		pipe.destroy(error);
		throw error;
	});
	await Promise.all([packed, to.unpack(pipe)]);
}

async function openNameless(): Promise<FileHandle> {
	const folder = join(tmpdir(), `paddock-${process.getuid?.() ?? 0}`);
	await mkdir(folder, { recursive: true, mode: 0o700 });
	const path = join(folder, randomUUID());
	const file = await open(path, "wx+", 0o600);
	await unlink(path);
	return file;
}
