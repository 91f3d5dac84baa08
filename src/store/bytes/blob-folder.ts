import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { checkBlobName, checkId } from "./rollout-folder.ts";

const ABANDONED_MS = 60 * 60 * 1000;

/** Blobs as files: written aside, synced, then renamed, so that a blob is whole or absent. */
export class BlobFolder {
	readonly #root: string;
	readonly #drafts: string;

	private constructor(root: string) {
		this.#root = root;
		this.#drafts = join(root, ".drafts");
	}

	static async open(root: string): Promise<BlobFolder> {
		const folder = new BlobFolder(root);
		await mkdir(folder.#drafts, { recursive: true, mode: 0o700 });
		await folder.#sweep();
		return folder;
	}

	async put(id: string, name: string, data: Uint8Array): Promise<void> {
		const path = this.#path(id, name);
		const draft = join(this.#drafts, randomBytes(12).toString("hex"));
		try {
			const handle = await open(draft, "wx", 0o600);
			try {
				await handle.writeFile(data);
				await handle.sync();
			} finally {
				await handle.close();
			}
			await makeFolder(dirname(path));
			await rename(draft, path);
		} catch (error) {
			await rm(draft, { force: true });
			throw error;
		}
		await syncFolder(dirname(path));
	}

	async get(id: string, name: string): Promise<Buffer | null> {
		try {
			return await readFile(this.#path(id, name));
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
			throw error;
		}
	}

	async list(id: string): Promise<string[]> {
		try {
			return (await readdir(join(this.#root, checkId(id)))).sort();
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
			throw error;
		}
	}

	#path(id: string, name: string): string {
		return join(this.#root, checkId(id), checkBlobName(name));
	}

	/** What a killed process left half written. */
	async #sweep(): Promise<void> {
		for (const name of await readdir(this.#drafts)) {
			const path = join(this.#drafts, name);
			const age = await stat(path).then(
				(stats) => Date.now() - stats.mtimeMs,
				() => 0,
			);
			if (age > ABANDONED_MS) await rm(path, { force: true });
		}
	}
}

/** A new folder's own entry must reach the disk too. */
export async function makeFolder(path: string): Promise<void> {
	const made = await mkdir(path, { recursive: true, mode: 0o700 });
	if (made !== undefined) await syncFolder(dirname(made));
}

export async function syncFolder(path: string): Promise<void> {
	const handle = await open(path, "r");
	try {
		await handle.sync();
	} finally {
		await handle.close();
	}
}
