import { join } from "node:path";
import { BlobFolder } from "./blob-folder.ts";
import type { Bytes } from "./bytes.ts";
import { ChunkLogs } from "./chunk-log.ts";

/** Traces and blobs as files below one folder. */
export class FolderBytes implements Bytes {
	readonly #blobs: BlobFolder;
	readonly #logs: ChunkLogs;

	private constructor(blobs: BlobFolder, logs: ChunkLogs) {
		this.#blobs = blobs;
		this.#logs = logs;
	}

	static async open(folder: string): Promise<FolderBytes> {
		return new FolderBytes(
			await BlobFolder.open(join(folder, "blobs")),
			new ChunkLogs(join(folder, "traces")),
		);
	}

	appendTrace(id: string, attempt: number, bytes: Uint8Array): Promise<void> {
		return this.#logs.append(id, attempt, bytes);
	}

	readTrace(id: string, attempt: number): AsyncIterable<Uint8Array> {
		return this.#logs.read(id, attempt);
	}

	putBlob(id: string, name: string, data: Uint8Array): Promise<void> {
		return this.#blobs.put(id, name, data);
	}

	getBlob(id: string, name: string): Promise<Buffer | null> {
		return this.#blobs.get(id, name);
	}

	listBlobs(id: string): Promise<string[]> {
		return this.#blobs.list(id);
	}

	[Symbol.asyncDispose](): Promise<void> {
		return this.#logs[Symbol.asyncDispose]();
	}
}
