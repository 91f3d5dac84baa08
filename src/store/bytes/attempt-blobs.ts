import { type BlobName, isBlobName } from "../../model/blob.ts";
import type { Bytes } from "./bytes.ts";

/**
 * Small named results, those of each attempt apart: one that was given up may still be writing, and then writes where
 * nobody looks. What is asked for by its name is the newest attempt's.
 */
export class AttemptBlobs {
	readonly #bytes: Bytes;
	readonly #attemptOf: (id: string) => Promise<number | null>;

	constructor(bytes: Bytes, attemptOf: (id: string) => Promise<number | null>) {
		this.#bytes = bytes;
		this.#attemptOf = attemptOf;
	}

	async put(id: string, attempt: number, name: BlobName, data: Uint8Array): Promise<void> {
		await this.#bytes.putBlob(id, `${attempt}.${name}`, data);
	}

	async get(id: string, name: BlobName): Promise<Buffer | null> {
		const attempt = await this.#attemptOf(id);
		return attempt === null ? null : await this.#bytes.getBlob(id, `${attempt}.${name}`);
	}

	async last(id: string, name: BlobName): Promise<Buffer | null> {
		const attempts = (await this.#bytes.listBlobs(id))
			.filter((stored) => stored.endsWith(`.${name}`))
			.map((stored) => Number(stored.slice(0, -name.length - 1)))
			.filter(Number.isInteger);
		return attempts.length === 0 ? null : await this.#bytes.getBlob(id, `${Math.max(...attempts)}.${name}`);
	}

	async list(id: string): Promise<BlobName[]> {
		const prefix = `${await this.#attemptOf(id)}.`;
		const names = await this.#bytes.listBlobs(id);
		return names
			.filter((name) => name.startsWith(prefix))
			.map((name) => name.slice(prefix.length))
			.filter(isBlobName);
	}
}
