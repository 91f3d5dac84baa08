import type { Sandbox } from "../sandbox.ts";

/** The boxes a backend has open; they end with it. */
export class OpenBoxes implements AsyncDisposable {
	readonly #boxes = new Set<Sandbox>();

	add(box: Sandbox): Sandbox {
		this.#boxes.add(box);
		const forget = () => void this.#boxes.delete(box);
		box.closed.then(forget, forget);
		return box;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await Promise.all([...this.#boxes].map((box) => box[Symbol.asyncDispose]()));
	}
}
