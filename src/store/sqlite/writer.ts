import { Worker } from "node:worker_threads";
import { OutageError } from "../../errors.ts";
import type { SqliteWrites } from "./writes.ts";

type Method = keyof SqliteWrites;

export interface WriteOrder {
	ticket: number;
	method: Method;
	values: unknown[];
}

export type WriteAnswer =
	| { ticket: number; value: unknown }
	| { ticket: number; error: string; isOutage: boolean };

interface Waiting {
	resolve: (value: unknown) => void;
	reject: (error: Error) => void;
}

/** The main thread's end of the writing thread: an order resolves once its transaction is on disk. */
export class SqliteWriter implements AsyncDisposable {
	readonly #thread: Worker;
	readonly #waiting = new Map<number, Waiting>();
	readonly #gone: Promise<void>;
	#tickets = 0;
	#broken: Error | null = null;

	constructor(file: string) {
		// The thread's file has the extension of this one: TypeScript in development, JavaScript when published.
		const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
		const entry = new URL(`./writer-thread.${extension}`, import.meta.url);
		this.#thread = new Worker(entry, { workerData: { file }, name: "paddock-store" });
		this.#thread.on("message", (answers: WriteAnswer[]) => this.#answer(answers));
		this.#thread.on("error", (error) => this.#break(error));
		this.#gone = new Promise((resolve) => {
			this.#thread.on("exit", () => {
				this.#break(new Error("The store is closed."));
				resolve();
			});
		});
		this.#thread.unref();
	}

	order<M extends Method>(
		method: M,
		...values: Parameters<SqliteWrites[M]>
	): Promise<ReturnType<SqliteWrites[M]>> {
		if (this.#broken) return Promise.reject(this.#broken);
		const ticket = ++this.#tickets;
		return new Promise((resolve, reject) => {
			this.#waiting.set(ticket, { resolve: resolve as (value: unknown) => void, reject });
			if (this.#waiting.size === 1) this.#thread.ref();
			this.#thread.postMessage({ ticket, method, values } satisfies WriteOrder);
		});
	}

	/** Orders already given are carried out first. */
	async [Symbol.asyncDispose](): Promise<void> {
		this.#thread.ref();
		// Never given an order, it has nothing to finish and may not even have started.
		if (this.#tickets === 0) await this.#thread.terminate();
		else this.#thread.postMessage("close");
		await this.#gone;
	}

	#answer(answers: WriteAnswer[]): void {
		for (const answer of answers) {
			const waiting = this.#waiting.get(answer.ticket);
			this.#waiting.delete(answer.ticket);
			if ("error" in answer) waiting?.reject(toError(answer));
			else waiting?.resolve(answer.value);
		}
		if (this.#waiting.size === 0) this.#thread.unref();
	}

	#break(error: Error): void {
		this.#broken ??= error;
		for (const { reject } of this.#waiting.values()) reject(this.#broken);
		this.#waiting.clear();
	}
}

function toError({ error, isOutage }: { error: string; isOutage: boolean }): Error {
	const message = `The store could not write: ${error}`;
	return isOutage ? new OutageError(message) : new Error(message);
}
