import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";
import { link, mkdir, open, readFile, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import { UsageError } from "../errors.ts";

const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const VERSION = 1;

/** Encrypts small secrets under one key file, so that they may rest on disk. */
export interface Sealer {
	/** `context` is authenticated: a sealed text cannot be moved to another rollout. */
	seal(text: string, context: string): Buffer;
	unseal(sealed: Uint8Array, context: string): string;
	/** The same for the same text; without the key file nobody can try out which text it was. */
	fingerprint(text: string): string;
}

/** Reads the owner-only key file, or makes it; of several processes that start at once, exactly one makes it. */
export async function openSealer(keyFile: string): Promise<Sealer> {
	return toSealer((await readKey(keyFile)) ?? (await createKey(keyFile)), keyFile);
}

/** Null where there is no key file. */
export async function readSealer(keyFile: string): Promise<Sealer | null> {
	const key = await readKey(keyFile);
	return key === null ? null : toSealer(key, keyFile);
}

function toSealer(key: Buffer, keyFile: string): Sealer {
	if (key.length !== KEY_BYTES) {
		throw new UsageError(
			`${keyFile} is not a key file: it must hold ${KEY_BYTES} bytes, it holds ${key.length}.`,
			"bad_key_file",
		);
	}
	return {
		seal: (text, context) => seal(key, text, context),
		unseal: (sealed, context) => unseal(key, sealed, context, keyFile),
		fingerprint: (text) => createHmac("sha256", key).update(text).digest("hex"),
	};
}

function seal(key: Buffer, text: string, context: string): Buffer {
	const iv = randomBytes(IV_BYTES);
	const cipher = createCipheriv("aes-256-gcm", key, iv).setAAD(Buffer.from(context));
	const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
	return Buffer.concat([Buffer.of(VERSION), iv, cipher.getAuthTag(), body]);
}

function unseal(key: Buffer, sealed: Uint8Array, context: string, keyFile: string): string {
	const iv = sealed.subarray(1, 1 + IV_BYTES);
	const tag = sealed.subarray(1 + IV_BYTES, 1 + IV_BYTES + TAG_BYTES);
	try {
		const decipher = createDecipheriv("aes-256-gcm", key, iv).setAAD(Buffer.from(context)).setAuthTag(tag);
		const body = sealed.subarray(1 + IV_BYTES + TAG_BYTES);
		return Buffer.concat([decipher.update(body), decipher.final()]).toString("utf8");
	} catch (cause) {
		const message = `A stored key cannot be opened with ${keyFile}: every process that shares the store needs the same key file.`;
		throw Object.assign(new UsageError(message, "secret_unreadable"), { cause });
	}
}

async function readKey(keyFile: string): Promise<Buffer | null> {
	try {
		return await readFile(keyFile);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
		throw error;
	}
}

/** Written whole under another name and linked into place: nobody ever reads half a key, and the first one wins. */
async function createKey(keyFile: string): Promise<Buffer> {
	await mkdir(dirname(keyFile), { recursive: true, mode: 0o700 });
	const draft = `${keyFile}.${randomBytes(6).toString("hex")}`;
	const handle = await open(draft, "wx", 0o600);
	try {
		await handle.writeFile(randomBytes(KEY_BYTES));
		await handle.sync();
	} finally {
		await handle.close();
	}
	try {
		await link(draft, keyFile);
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
	} finally {
		await unlink(draft);
	}
	return readFile(keyFile);
}
