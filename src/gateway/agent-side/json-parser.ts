import { Worker } from "node:worker_threads";
import { type JsonLimits, type Measured, parseMeasured } from "../../model/measured-json.ts";

/** Enough for the largest body there may be, whatever it is made of. */
const MAX_HEAP_MB = 128;

/** Smaller ones are parsed sooner than they are handed to a thread. */
const LARGE_BYTES = 128 * 1024;

/** Parses large bodies one after the other in a thread of its own: the others' streams flow on meanwhile. */
export class JsonParser implements AsyncDisposable {
	readonly #limits: JsonLimits;
	#worker: Worker | null = null;
	readonly #waiting: PromiseWithResolvers<Measured>[] = [];

	constructor({ maxDepth, maxValues }: JsonLimits) {
		this.#limits = { maxDepth, maxValues };
	}

	/** Takes the bytes over. */
	async parse(bytes: Buffer): Promise<Measured> {
		if (bytes.length < LARGE_BYTES) return parseMeasured(bytes, this.#limits);
		const answer = Promise.withResolvers<Measured>();
		this.#waiting.push(answer);
		this.#worker ??= this.#start();
		this.#worker.postMessage(bytes, [bytes.buffer as ArrayBuffer]);
		return await answer.promise;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#worker?.terminate();
	}

	#start(): Worker {
		// The thread's file has the extension of this one: TypeScript in development, JavaScript when published.
		const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
		const worker = new Worker(new URL(`./json-thread.${extension}`, import.meta.url), {
			name: "paddock-json",
			workerData: this.#limits,
			resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB, maxYoungGenerationSizeMb: 8 },
		});
		worker.unref();
		worker.on("message", (value: Measured) => this.#waiting.shift()?.resolve(value));
		const lose = (error: Error) => {
			if (this.#worker === worker) this.#worker = null;
			for (const { reject } of this.#waiting.splice(0)) reject(error);
		};
		worker.on("error", lose);
		worker.on("exit", () => lose(new Error("the thread that parses ended")));
		return worker;
	}
}
