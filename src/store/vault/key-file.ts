import { randomBytes } from "node:crypto";
import { link, mkdir, open, readFile, rename, stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { UsageError } from "../../errors.ts";
import { syncFolder } from "../bytes/blob-folder.ts";
import { KEY_BYTES, SealingKey } from "./seal.ts";

/** Where the master key lies. */
export interface KeyFile {
	path: string;
	/** Named by its owner: then it is never made, only read, and must be for the owner alone. */
	isNamed: boolean;
}

export function keyFileIn(home: string, named: string | undefined): KeyFile {
	return named === undefined
		? { path: join(home, "secret.key"), isNamed: false }
		: { path: named, isNamed: true };
}

/** Null where there is none. */
export async function readKey({ path, isNamed }: KeyFile): Promise<SealingKey | null> {
	const key = await readWhole(path);
	if (key === null) return null;
	if (key.length !== KEY_BYTES) {
		throw new UsageError(
			`${path} is not a key file: it must hold ${KEY_BYTES} bytes, it holds ${key.length}.`,
			"bad_key_file",
		);
	}
	if (isNamed && ((await stat(path)).mode & 0o077) !== 0) {
		throw new UsageError(`${path} can be read by others than its owner: chmod 600 it.`, "bad_key_file");
	}
	return new SealingKey(key);
}

/** Of several processes that make it at once, exactly one does; everybody gets that one's. */
export async function makeKey(file: KeyFile): Promise<SealingKey> {
	await mkdir(dirname(file.path), { recursive: true, mode: 0o700 });
	const draft = `${file.path}.${randomBytes(6).toString("hex")}`;
	const handle = await open(draft, "wx", 0o600);
	try {
		await handle.writeFile(randomBytes(KEY_BYTES));
		await handle.sync();
	} finally {
		await handle.close();
	}
	// Written whole under another name and linked into place: nobody ever reads half a key, and the first one wins.
	try {
		await link(draft, file.path);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
	} finally {
		await unlink(draft);
	}
	await syncFolder(dirname(file.path));
	return (await readKey(file))!;
}

/** The key that a rotation has made and not yet put in place. */
export function nextOf(file: KeyFile): KeyFile {
	return { ...file, path: `${file.path}.next` };
}

export async function putInPlace(file: KeyFile): Promise<void> {
	await rename(nextOf(file).path, file.path);
	await syncFolder(dirname(file.path));
}

async function readWhole(path: string): Promise<Buffer | null> {
	try {
		return await readFile(path);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
		throw error;
	}
}
