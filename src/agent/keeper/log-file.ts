import { constants } from "node:fs";
import { type FileHandle, open, rename, stat } from "node:fs/promises";

const MAX_BYTES = 10 * 1024 * 1024;
const KEPT = 3;
/** Nobody tells how much a server has said: it is looked at. What it can say meanwhile is how far its log exceeds the limit. */
const LOOK_EVERY_MS = 200;
const TAIL_BYTES = 64 * 1024;
const PIECE_BYTES = 256 * 1024;
const OVERLAP_BYTES = 1024;

/**
 * The log of a kept server, which writes it by itself: a pipe would block it, or fill our memory. Grows to 10 MB, three older ones
 * of at most that size are kept, of a flood its end, and nobody else can read any of them.
 */
export class LogFile implements AsyncDisposable {
	readonly #path: string;
	readonly #file: FileHandle;
	readonly #maxBytes: number;
	#timer: NodeJS.Timeout | undefined;
	#rotating: Promise<void> = Promise.resolve();
	/** Where what is said from now on begins; rotation moves it to the front. */
	#start: number;
	#searched: number;

	static async open(path: string, maxBytes = MAX_BYTES): Promise<LogFile> {
		const { O_APPEND, O_CREAT, O_RDWR, O_NOFOLLOW } = constants;
		const file = await open(path, O_APPEND | O_CREAT | O_RDWR | O_NOFOLLOW, 0o600);
		return new LogFile(path, file, maxBytes, (await file.stat()).size);
	}

	constructor(path: string, file: FileHandle, maxBytes: number, start: number) {
		this.#path = path;
		this.#file = file;
		this.#maxBytes = maxBytes;
		this.#start = start;
		this.#searched = start;
	}

	/** From now on it is kept small; before, nothing may get lost that somebody looks for. */
	keepSmall(): void {
		this.#timer ??= setInterval(() => void this.rotate(), LOOK_EVERY_MS).unref();
	}

	/** Looks for it in what was said since the last look, however much that is. */
	async find(pattern: RegExp): Promise<RegExpExecArray | null> {
		for (;;) {
			const piece = Buffer.alloc(PIECE_BYTES);
			const { bytesRead } = await this.#file.read(piece, 0, PIECE_BYTES, this.#searched);
			const found = pattern.exec(piece.subarray(0, bytesRead).toString("utf8"));
			if (found !== null || bytesRead < PIECE_BYTES) return found;
			// What is looked for may lie across the cut.
			this.#searched += PIECE_BYTES - OVERLAP_BYTES;
		}
	}

	/** For a child to write to; appends wherever the end is. */
	get fd(): number {
		return this.#file.fd;
	}

	/** The end of what was said since it was opened. */
	async tail(): Promise<string> {
		const { size } = await this.#file.stat();
		const from = Math.max(Math.min(this.#start, size), size - TAIL_BYTES);
		const { buffer, bytesRead } = await this.#file.read(Buffer.alloc(size - from), 0, size - from, from);
		return buffer.subarray(0, bytesRead).toString("utf8");
	}

	/** The child's descriptor stays the same file, so the file is copied away and emptied. */
	rotate(): Promise<void> {
		this.#rotating = this.#rotating
			.then(() => this.#rotateNow())
			.catch(() => {
				// A full disk: what was said is lost.
			});
		return this.#rotating;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		clearInterval(this.#timer);
		await this.#rotating;
		await this.#file.close();
	}

	async #rotateNow(): Promise<void> {
		const { size } = await this.#file.stat();
		if (size <= this.#maxBytes) return;
		for (let age = KEPT - 1; age >= 1; age -= 1) {
			const older = `${this.#path}.${age}`;
			if (await stat(older).catch(() => null)) await rename(older, `${this.#path}.${age + 1}`);
		}
		try {
			await this.#copyEnd(`${this.#path}.1`, size);
		} finally {
			// Also where there was no room for the copy: all the more then.
			await this.#file.truncate(0);
			this.#start = 0;
		}
	}

	async #copyEnd(path: string, size: number): Promise<void> {
		const { O_WRONLY, O_CREAT, O_EXCL } = constants;
		await using copy = await open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600);
		const piece = Buffer.alloc(PIECE_BYTES);
		for (let at = Math.max(0, size - this.#maxBytes); at < size; ) {
			const { bytesRead } = await this.#file.read(piece, 0, Math.min(PIECE_BYTES, size - at), at);
			if (bytesRead === 0) return;
			await copy.writeFile(piece.subarray(0, bytesRead));
			at += bytesRead;
		}
	}
}
