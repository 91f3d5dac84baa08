import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from "node:crypto";
import { UsageError } from "../../errors.ts";

export const KEY_BYTES = 32;
const VERSION = 2;
const ID_BYTES = 8;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const HEADER_BYTES = 1 + ID_BYTES + IV_BYTES + TAG_BYTES;

/** One key: seals what may then rest on disk, and opens what it has sealed. */
export class SealingKey {
	/** Names the key and tells nothing about it; every sealed value carries it. */
	readonly id: string;
	readonly #key: Buffer;

	constructor(key: Buffer) {
		this.#key = key;
		this.id = createHash("sha256")
			.update("paddock key id\0")
			.update(key)
			.digest("hex")
			.slice(0, 2 * ID_BYTES);
	}

	static random(): SealingKey {
		return new SealingKey(randomBytes(KEY_BYTES));
	}

	/** `context` is authenticated: what is sealed for one place and version opens at no other. */
	seal(content: string | Uint8Array, context: string): Buffer {
		const iv = randomBytes(IV_BYTES);
		const cipher = createCipheriv("aes-256-gcm", this.#key, iv).setAAD(Buffer.from(context));
		const body = Buffer.concat([cipher.update(content), cipher.final()]);
		return Buffer.concat([Buffer.of(VERSION), Buffer.from(this.id, "hex"), iv, cipher.getAuthTag(), body]);
	}

	open(sealed: Uint8Array, context: string): Buffer {
		if (keyIdOf(sealed) !== this.id) {
			throw new UsageError("A stored secret was sealed with another key than this one.", "secret_unreadable");
		}
		const iv = sealed.subarray(1 + ID_BYTES, 1 + ID_BYTES + IV_BYTES);
		const tag = sealed.subarray(1 + ID_BYTES + IV_BYTES, HEADER_BYTES);
		try {
			const decipher = createDecipheriv("aes-256-gcm", this.#key, iv);
			decipher.setAAD(Buffer.from(context)).setAuthTag(tag);
			return Buffer.concat([decipher.update(sealed.subarray(HEADER_BYTES)), decipher.final()]);
		} catch (cause) {
			const message = "A stored secret is damaged, or an older one was put in its place.";
			throw Object.assign(new UsageError(message, "secret_unreadable"), { cause });
		}
	}

	/** The same for the same text; without the key nobody can try out which text it was. */
	fingerprint(text: string): string {
		return createHmac("sha256", this.#key).update(text).digest("hex");
	}

	/** This key, sealed by another. */
	wrappedBy(master: SealingKey, name: string): Buffer {
		return master.seal(this.#key, `key ${name}`);
	}

	static unwrap(wrapped: Uint8Array, master: SealingKey, name: string): SealingKey {
		return new SealingKey(master.open(wrapped, `key ${name}`));
	}
}

/** Which key sealed this; null when nothing of ours did. */
export function keyIdOf(sealed: Uint8Array): string | null {
	if (sealed.length < HEADER_BYTES || sealed[0] !== VERSION) return null;
	return Buffer.from(sealed.subarray(1, 1 + ID_BYTES)).toString("hex");
}
