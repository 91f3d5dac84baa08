import { setTimeout as delay } from "node:timers/promises";
import { messageOf, OutageError } from "../../errors.ts";
import { type BucketCredentials, signedHeaders } from "./bucket-signature.ts";
import type { Bytes } from "./bytes.ts";
import { GroupCommit } from "./group-commit.ts";
import { checkBlobName, checkId } from "./rollout-folder.ts";

export interface BucketOptions extends BucketCredentials {
	/** `https://host/bucket` or `https://host/bucket/prefix`: path-style, as every S3-compatible server takes it. */
	url: string;
}

const TRIES = 4;
const TIMEOUT_MS = 60_000;

/** Traces and blobs as objects of an S3-compatible bucket. An object appears whole, so nothing is ever half written. */
export class BucketBytes implements Bytes {
	readonly #options: BucketOptions;
	readonly #traces = new Map<string, GroupCommit<Uint8Array, undefined>>();
	/** Chunks of which nobody knows whether they arrived: what is sent again takes the same name. */
	readonly #unsure = new Map<string, string>();
	#chunks = 0;

	constructor(options: BucketOptions) {
		this.#options = options;
	}

	async appendTrace(id: string, attempt: number, bytes: Uint8Array): Promise<void> {
		const folder = traceFolder(id, attempt);
		const trace = this.#traces.get(folder) ?? new GroupCommit((chunks) => this.#putChunk(folder, chunks));
		this.#traces.set(folder, trace);
		try {
			await trace.add(bytes);
		} finally {
			if (trace.idle) this.#traces.delete(folder);
		}
	}

	async *readTrace(id: string, attempt: number): AsyncIterable<Uint8Array> {
		for (const key of await this.#list(traceFolder(id, attempt)))
			yield (await this.#get(key)) ?? Buffer.alloc(0);
	}

	async putBlob(id: string, name: string, data: Uint8Array): Promise<void> {
		await this.#put(blobKey(id, name), data);
	}

	getBlob(id: string, name: string): Promise<Buffer | null> {
		return this.#get(blobKey(id, name));
	}

	async listBlobs(id: string): Promise<string[]> {
		const folder = `blobs/${checkId(id)}/`;
		return (await this.#list(folder)).map((key) => key.slice(folder.length)).sort();
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await Promise.all([...this.#traces.values()].map((trace) => trace.settled()));
	}

	async #putChunk(folder: string, chunks: Uint8Array[]): Promise<undefined[]> {
		const name = this.#unsure.get(folder) ?? this.#nextName();
		this.#unsure.set(folder, name);
		await this.#put(folder + name, Buffer.concat(chunks));
		this.#unsure.delete(folder);
		return chunks.map(() => undefined);
	}

	/** One process writes an attempt: its own time, which never steps back, and its count put the chunks in order. */
	#nextName(): string {
		const time = Math.trunc(performance.timeOrigin + performance.now());
		return [time, this.#chunks++].map((number) => String(number).padStart(15, "0")).join("-");
	}

	async #put(key: string, body: Uint8Array): Promise<void> {
		await this.#request("PUT", this.#url(key), body);
	}

	async #get(key: string): Promise<Buffer | null> {
		const response = await this.#request("GET", this.#url(key), null);
		return response.status === 404 ? null : response.body;
	}

	/** Keys below the bucket's prefix, in order. */
	async #list(folder: string): Promise<string[]> {
		const base = new URL(this.#options.url);
		const [, bucket, ...prefix] = base.pathname.replace(/\/$/, "").split("/");
		const root = prefix.length === 0 ? "" : `${prefix.join("/")}/`;
		const keys: string[] = [];
		let token: string | undefined;
		do {
			const url = new URL(`/${bucket}`, base);
			url.searchParams.set("list-type", "2");
			url.searchParams.set("prefix", root + folder);
			if (token !== undefined) url.searchParams.set("continuation-token", token);
			const xml = (await this.#request("GET", url, null)).body.toString("utf8");
			keys.push(...[...xml.matchAll(/<Key>([^<]*)<\/Key>/g)].map((match) => match[1]!.slice(root.length)));
			token = /<NextContinuationToken>([^<]*)</.exec(xml)?.[1];
		} while (token !== undefined);
		return keys.sort();
	}

	#url(key: string): URL {
		return new URL(`${this.#options.url.replace(/\/$/, "")}/${key}`);
	}

	/** Tried again when the server or the way to it fails; a refusal is final. */
	async #request(
		method: string,
		url: URL,
		body: Uint8Array | null,
	): Promise<{ status: number; body: Buffer }> {
		let problem = "";
		let isFinal = false;
		for (let attempt = 0; attempt < TRIES; attempt++) {
			if (attempt > 0) await delay(100 * 4 ** attempt);
			const answer = await this.#send(method, url, body).catch((error: unknown) => {
				problem = messageOf(error);
				return null;
			});
			if (!answer) continue;
			if (answer.status < 300 || (answer.status === 404 && method === "GET")) return answer;
			const code = /<Code>([A-Za-z]+)<\/Code>/.exec(answer.body.toString("utf8"))?.[1] ?? "";
			problem = `${answer.status} ${code}`.trim();
			isFinal = answer.status < 500 && answer.status !== 429;
			if (isFinal) break;
		}
		const message = `The bucket at ${url.host} did not take ${method} ${url.pathname}: ${problem}.`;
		throw isFinal ? new Error(message) : new OutageError(message);
	}

	async #send(method: string, url: URL, body: Uint8Array | null): Promise<{ status: number; body: Buffer }> {
		const { host: _, ...headers } = signedHeaders({ method, url, body }, this.#options);
		const response = await fetch(url, {
			method,
			headers,
			body: body as Uint8Array<ArrayBuffer> | null,
			redirect: "error",
			signal: AbortSignal.timeout(TIMEOUT_MS),
		});
		return { status: response.status, body: Buffer.from(await response.arrayBuffer()) };
	}
}

function blobKey(id: string, name: string): string {
	return `blobs/${checkId(id)}/${checkBlobName(name)}`;
}

function traceFolder(id: string, attempt: number): string {
	return `traces/${checkId(id)}/${Math.trunc(attempt)}/`;
}
