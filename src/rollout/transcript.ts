import type { AgentMessage } from "../agent/agent.ts";
import type { Rollout } from "../model/rollout.ts";
import type { Store } from "../store/store.ts";

const EVERY_MS = 1_000;
/** A long transcript takes long to fetch; it may cost no more than this share of the time. */
const SHARE = 0.1;

/** Where messages come from: a live agent. */
interface Talker {
	messages(): Promise<AgentMessage[]>;
}

/** Keeps the stored transcript fresh for whoever reads along. */
export class Transcript {
	readonly #rollout: Pick<Rollout, "id" | "attempt">;
	readonly #store: Pick<Store, "putBlob">;
	#stirred = false;
	/** Never rejects. */
	#writing: Promise<void> | null = null;
	#restUntil = 0;

	constructor(rollout: Pick<Rollout, "id" | "attempt">, store: Pick<Store, "putBlob">) {
		this.#rollout = rollout;
		this.#store = store;
	}

	follow(talker: Talker): Disposable {
		const timer = setInterval(() => this.#refresh(talker), EVERY_MS);
		return { [Symbol.dispose]: () => clearInterval(timer) };
	}

	/** Something was said or done: what is stored is out of date. */
	stirred(): void {
		this.#stirred = true;
	}

	/** The last word, after whatever is being written: an older transcript must not come to lie over it. */
	async keep(talker: Talker): Promise<void> {
		await this.#writing;
		await this.#write(talker);
	}

	async #write(talker: Talker): Promise<void> {
		const messages = Buffer.from(JSON.stringify(await talker.messages()));
		await this.#store.putBlob(this.#rollout.id, this.#rollout.attempt, "transcript.json", messages);
	}

	#refresh(talker: Talker): void {
		if (!this.#stirred || this.#writing !== null || performance.now() < this.#restUntil) return;
		this.#stirred = false;
		const startedAt = performance.now();
		this.#writing = this.#write(talker)
			.catch(() => {
				// A busy agent may answer late; the next stir, or the end, writes it.
				this.#stirred = true;
			})
			.then(() => {
				this.#writing = null;
				this.#restUntil = performance.now() + (performance.now() - startedAt) / SHARE;
			});
	}
}
