/**
 * How long the init may be silent. Commands that use up the box's memory leave it none to answer with: then the host makes room, and
 * waits as long once more before it gives the box up.
 */
export class Patience implements Disposable {
	readonly #ms: number;
	readonly #makeRoom: () => Promise<boolean>;
	readonly #giveUp: () => void;
	#timer: NodeJS.Timeout;
	#isOver = false;

	/** `makeRoom` says whether it was for want of room. */
	constructor(ms: number, makeRoom: () => Promise<boolean>, giveUp: () => void) {
		this.#ms = ms;
		this.#makeRoom = makeRoom;
		this.#giveUp = giveUp;
		this.#timer = setTimeout(() => void this.#tryOnce(), ms);
	}

	/** It has said something. */
	refresh(): void {
		if (!this.#isOver) this.#timer.refresh();
	}

	[Symbol.dispose](): void {
		this.#isOver = true;
		clearTimeout(this.#timer);
	}

	async #tryOnce(): Promise<void> {
		const hasRoom = await this.#makeRoom().catch(() => false);
		if (this.#isOver) return;
		if (hasRoom) this.#timer = setTimeout(this.#giveUp, this.#ms);
		else this.#giveUp();
	}
}
