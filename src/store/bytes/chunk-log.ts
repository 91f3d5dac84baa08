import { createReadStream } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeFolder, syncFolder } from "./blob-folder.ts";
import { GroupCommit } from "./group-commit.ts";
import { checkId } from "./rollout-folder.ts";

const IDLE_MS = 30_000;

/** Append-only files, one per attempt. Appends that arrive while one is being synced share the next sync. */
export class ChunkLogs implements AsyncDisposable {
	readonly #root: string;
	readonly #logs = new Map<string, ChunkLog>();

	constructor(root: string) {
		this.#root = root;
	}

	async append(id: string, attempt: number, bytes: Uint8Array): Promise<void> {
		const path = this.#path(id, attempt);
		let log = this.#logs.get(path);
		if (!log) {
			log = new ChunkLog(path, () => this.#logs.delete(path));
			this.#logs.set(path, log);
		}
		await log.append(bytes);
	}

	async *read(id: string, attempt: number): AsyncIterable<Uint8Array> {
		try {
			yield* createReadStream(this.#path(id, attempt), { highWaterMark: 256 * 1024 });
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
		}
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await Promise.all([...this.#logs.values()].map((log) => log[Symbol.asyncDispose]()));
	}

	#path(id: string, attempt: number): string {
		return join(this.#root, checkId(id), `${Math.trunc(attempt)}.log`);
	}
}

class ChunkLog implements AsyncDisposable {
	readonly #path: string;
	readonly #onClose: () => void;
	readonly #commits = new GroupCommit((chunks: Uint8Array[]) => this.#write(chunks));
	#handle: FileHandle | null = null;
	/** What is known to be whole. */
	#sizeBytes = 0;
	#idle: NodeJS.Timeout | null = null;

	constructor(path: string, onClose: () => void) {
		this.#path = path;
		this.#onClose = onClose;
	}

	append(bytes: Uint8Array): Promise<void> {
		if (this.#idle) clearTimeout(this.#idle);
		this.#idle = null;
		return this.#commits.add(bytes);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#onClose();
		await this.#commits.settled();
		if (this.#idle) clearTimeout(this.#idle);
		await this.#handle?.close();
		this.#handle = null;
	}

	async #write(chunks: Uint8Array[]): Promise<undefined[]> {
		if (!this.#handle) {
			this.#handle = await openForAppend(this.#path);
			this.#sizeBytes = (await this.#handle.stat()).size;
		}
		const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
		try {
			await this.#handle.appendFile(bytes);
			await this.#handle.datasync();
		} catch (error) {
			// Half a chunk in the middle would spoil all that follows: what was not acknowledged goes.
			await this.#handle.truncate(this.#sizeBytes);
			throw error;
		}
		this.#sizeBytes += bytes.length;
		if (this.#commits.idle) {
			this.#idle = setTimeout(() => void this[Symbol.asyncDispose](), IDLE_MS);
			this.#idle.unref();
		}
		return chunks.map(() => undefined);
	}
}

async function openForAppend(path: string): Promise<FileHandle> {
	await makeFolder(dirname(path));
	const handle = await open(path, "a", 0o600);
	await syncFolder(dirname(path));
	return handle;
}
