import type { JsonObject } from "./protocols/protocol.ts";

/** A shallow copy of the body that remembers what was done to it. */
export class RequestDraft {
	readonly body: JsonObject;
	readonly patch: JsonObject = {};
	readonly #refused: ReadonlySet<string>;

	constructor(body: JsonObject, refused: ReadonlySet<string>) {
		this.body = { ...body };
		this.#refused = refused;
		for (const field of refused) this.remove(field);
	}

	set(field: string, value: unknown): void {
		if (this.#refused.has(field) || this.body[field] === value) return;
		this.body[field] = value;
		this.patch[field] = value;
	}

	remove(field: string): void {
		if (this.body[field] === undefined) return;
		delete this.body[field];
		this.patch[field] = null;
	}
}
