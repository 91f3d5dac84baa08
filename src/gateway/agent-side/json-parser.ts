import { Worker } from "node:worker_threads";

/** Enough for the largest body there may be, whatever it is made of. */
const MAX_HEAP_MB = 256;

/** Parses large bodies one after the other in a thread of its own: the others' streams flow on meanwhile. */
export class JsonParser implements AsyncDisposable {
	#worker: Worker | null = null;
	readonly #waiting: PromiseWithResolvers<unknown>[] = [];

	/** Takes the bytes over; undefined for what is no JSON. */
	parse(bytes: Buffer): Promise<unknown> {
		const answer = Promise.withResolvers<unknown>();
		this.#waiting.push(answer);
		this.#worker ??= this.#start();
		this.#worker.postMessage(bytes, [bytes.buffer as ArrayBuffer]);
		return answer.promise;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#worker?.terminate();
	}

	#start(): Worker {
		// The thread's file has the extension of this one: TypeScript in development, JavaScript when published.
		const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
		const worker = new Worker(new URL(`./json-thread.${extension}`, import.meta.url), {
			name: "paddock-json",
			resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
		});
		worker.unref();
		worker.on("message", (value: unknown) => this.#waiting.shift()?.resolve(value));
		const lose = (error: Error) => {
			if (this.#worker === worker) this.#worker = null;
			for (const { reject } of this.#waiting.splice(0)) reject(error);
		};
		worker.on("error", lose);
		worker.on("exit", () => lose(new Error("the thread that parses ended")));
		return worker;
	}
}
