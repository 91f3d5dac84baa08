import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Readable, Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { RolloutError } from "../../errors.ts";
import type { Sandbox } from "../../sandbox/sandbox.ts";
import { type Admission, admit } from "../verdict/admit.ts";

const CHUNK_BYTES = 256 * 1024;

/**
 * What a box's home held at one moment, as a tar in a file without a name: it is gone with the process, whatever happens. It is
 * never unpacked on the host.
 */
export class Snapshot implements AsyncDisposable {
	readonly #file: FileHandle;

	private constructor(file: FileHandle) {
		this.#file = file;
	}

	/** What is larger than `maxBytes` was made to fill the host's disk: a box can hold large files that take no room. */
	static async take(box: Sandbox, exclude: readonly string[], maxBytes: number): Promise<Snapshot> {
		const file = await openNameless();
		try {
			const into = writeInto(file, maxBytes);
			const [packed, written] = await Promise.allSettled([box.pack(into, { exclude }), finished(into)]);
			// Breaking off on our side is the cause, what the box then says is the effect.
			if (written.status === "rejected" && written.reason instanceof RolloutError) throw written.reason;
			if (packed.status === "rejected") throw packed.reason;
			if (written.status === "rejected") throw written.reason;
			return new Snapshot(file);
		} catch (error) {
			await file.close();
			throw error;
		}
	}

	stream(): Readable {
		return Readable.from(readFrom(this.#file), { objectMode: false, highWaterMark: CHUNK_BYTES });
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#file.close();
	}
}

/*
 * Through the handle, which is closed once and waits for what is under way. Streams on its number would close it whenever they
 * break off, and by then the number may be another file's.
 */

async function* readFrom(file: FileHandle): AsyncGenerator<Buffer> {
	for (let at = 0; ; ) {
		const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, at);
		if (bytesRead === 0) return;
		yield buffer.subarray(0, bytesRead);
		at += bytesRead;
	}
}

function writeInto(file: FileHandle, maxBytes: number): Writable {
	let size = 0;
	return new Writable({
		highWaterMark: 1024 * 1024,
		write(chunk: Buffer, _encoding, done) {
			size += chunk.length;
			const message = `home is larger than ${Math.round(maxBytes / 1024 / 1024)} MB after setup`;
			if (size > maxBytes) return done(new RolloutError("sandbox", "disk_full", message));
			file.appendFile(chunk).then(() => done(), done);
		},
	});
}

/**
 * Streams what is admitted of one box's home into another's; nothing touches the host's disk. What cannot be packed or unpacked was
 * made so by the agent: the rest is brought over all the same.
 */
export async function transfer(
	from: Sandbox,
	to: Sandbox,
	admission: Admission,
	say: (text: string) => void,
): Promise<void> {
	const pipe = new PassThrough({ highWaterMark: 1024 * 1024 });
	const leftOut = (members: number) => say(`${members} things in the agent's workdir were not brought over`);
	const admitted = Readable.from(admit(pipe, admission, leftOut), { objectMode: false });
	const options = { paths: admission.paths, partly: true, evenBroken: true };
	const packed = from.pack(pipe, options).catch((error: Error) => {
		pipe.destroy(error);
		throw error;
	});
	const unpacked = to.unpack(admitted, { partly: true }).catch((error: Error) => {
		// Nobody reads any more, so the other side must not wait for that.
		pipe.destroy(error);
		throw error;
	});
	await Promise.all([packed, unpacked]);
}

async function openNameless(): Promise<FileHandle> {
	const folder = join(tmpdir(), `paddock-${process.getuid?.() ?? 0}`);
	await mkdir(folder, { recursive: true, mode: 0o700 });
	const path = join(folder, randomUUID());
	const file = await open(path, "wx+", 0o600);
	await unlink(path);
	return file;
}
