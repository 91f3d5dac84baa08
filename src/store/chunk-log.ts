import { createReadStream } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeFolder, syncFolder } from "./blob-folder.ts";
import { checkId } from "./rollout-folder.ts";

const IDLE_MS = 30_000;

interface OpenLog {
	pending: Uint8Array[];
	/** Resolves when everything pending now is on disk. */
	flush: Promise<void> | null;
	handle: FileHandle | null;
	/** What is known to be whole. */
	sizeBytes: number;
	idle: NodeJS.Timeout | null;
}

/** Append-only files, one per attempt. Appends that arrive while one is being synced share the next sync. */
export class ChunkLogs implements AsyncDisposable {
	readonly #root: string;
	readonly #logs = new Map<string, OpenLog>();

	constructor(root: string) {
		this.#root = root;
	}

	append(id: string, attempt: number, bytes: Uint8Array): Promise<void> {
		const path = this.#path(id, attempt);
		const log = this.#logs.get(path) ?? { pending: [], flush: null, handle: null, sizeBytes: 0, idle: null };
		this.#logs.set(path, log);
		if (log.idle) clearTimeout(log.idle);
		log.pending.push(bytes);
		// All appends of one turn, and all that come during a running sync, wait for the same following flush.
		if (log.pending.length === 1) {
			const before = log.flush ?? Promise.resolve();
			log.flush = before.then(
				() => this.#flush(path, log),
				() => this.#flush(path, log),
			);
		}
		return log.flush!;
	}

	async *read(id: string, attempt: number): AsyncIterable<Uint8Array> {
		try {
			yield* createReadStream(this.#path(id, attempt), { highWaterMark: 256 * 1024 });
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
		}
	}

	async [Symbol.asyncDispose](): Promise<void> {
		for (const [path, log] of this.#logs) {
			if (log.idle) clearTimeout(log.idle);
			await log.flush?.catch(() => undefined);
			await log.handle?.close();
			this.#logs.delete(path);
		}
	}

	async #flush(path: string, log: OpenLog): Promise<void> {
		const chunks = log.pending;
		log.pending = [];
		if (!log.handle) {
			log.handle = await openForAppend(path);
			log.sizeBytes = (await log.handle.stat()).size;
		}
		const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
		try {
			await log.handle.appendFile(bytes);
			await log.handle.datasync();
		} catch (error) {
			// Half a chunk in the middle would spoil all that follows: what was not acknowledged goes.
			await log.handle.truncate(log.sizeBytes);
			throw error;
		}
		log.sizeBytes += bytes.length;
		if (log.pending.length > 0) return;
		log.idle = setTimeout(() => void this.#close(path, log), IDLE_MS);
		log.idle.unref();
	}

	async #close(path: string, log: OpenLog): Promise<void> {
		if (log.pending.length > 0) return;
		this.#logs.delete(path);
		await log.handle?.close();
	}

	#path(id: string, attempt: number): string {
		return join(this.#root, checkId(id), `${Math.trunc(attempt)}.log`);
	}
}

async function openForAppend(path: string): Promise<FileHandle> {
	await makeFolder(dirname(path));
	const handle = await open(path, "a", 0o600);
	await syncFolder(dirname(path));
	return handle;
}
