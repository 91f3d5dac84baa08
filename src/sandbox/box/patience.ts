/**
 * How long the init may be silent. Commands that use up the box's memory leave it none to answer with: then the host makes room, and
 * waits as long once more before it gives the box up.
 */
export class Patience implements AsyncDisposable {
	readonly #ms: number;
	readonly #makeRoom: () => Promise<boolean>;
	readonly #giveUp: () => void;
	#timer: NodeJS.Timeout;
	#trying: Promise<void> = Promise.resolve();
	#isOver = false;

	/** `makeRoom` says whether it was for want of room. */
	constructor(ms: number, makeRoom: () => Promise<boolean>, giveUp: () => void) {
		this.#ms = ms;
		this.#makeRoom = makeRoom;
		this.#giveUp = giveUp;
		this.#timer = setTimeout(() => {
			this.#trying = this.#tryOnce();
		}, ms);
	}

	/** It has said something. */
	refresh(): void {
		if (!this.#isOver) this.#timer.refresh();
	}

	/** Resolves once room is no longer being made: what is asked for next must not fall to it. */
	async [Symbol.asyncDispose](): Promise<void> {
		this.#isOver = true;
		clearTimeout(this.#timer);
		await this.#trying;
	}

	async #tryOnce(): Promise<void> {
		const hasRoom = await this.#makeRoom().catch(() => false);
		if (this.#isOver) return;
		if (hasRoom) this.#timer = setTimeout(this.#giveUp, this.#ms);
		else this.#giveUp();
	}
}
