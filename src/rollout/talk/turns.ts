import { setImmediate as nextTick } from "node:timers/promises";
import type { Conversation, Turn } from "../../agent/agent.ts";
import { messageOf, RolloutError } from "../../errors.ts";
import { shorten } from "../../model/shorten.ts";
import { inTime } from "../clock.ts";
import type { RolloutRecord } from "../record.ts";
import type { Transcript } from "../transcript.ts";

const TRANSCRIPT_MS = 10_000;

/** Tells how each turn ended, once all that was said in it can be read. */
export class Turns implements Disposable {
	/** How many turns have been told. */
	told = 0;
	readonly #conversation: Conversation;
	readonly #transcript: Transcript;
	readonly #record: RolloutRecord;
	readonly #listening: Disposable;
	/** Never rejects. */
	#telling: Promise<void> = Promise.resolve();
	#onTold: () => void = () => {};

	constructor(conversation: Conversation, transcript: Transcript, record: RolloutRecord) {
		this.#conversation = conversation;
		this.#transcript = transcript;
		this.#record = record;
		this.#listening = conversation.subscribe((event) => {
			if (event.type !== "turn-end") return;
			this.#telling = this.#telling.then(() => this.#tell(event.turn));
		});
	}

	onTold(listener: () => void): void {
		this.#onTold = listener;
	}

	/** Resolves when every turn that has ended by now is told. */
	async quiet(): Promise<void> {
		// What the agent just said is heard a moment later.
		await nextTick();
		await this.#telling;
	}

	[Symbol.dispose](): void {
		this.#listening[Symbol.dispose]();
	}

	async #tell({ messageId, ended, text, error }: Turn): Promise<void> {
		const late = () => new RolloutError("agent", "agent_api_error", "the agent did not hand it over in time");
		try {
			await inTime(this.#transcript.keep(this.#conversation), { ms: TRANSCRIPT_MS, late });
		} catch (problem) {
			this.#record.note(`what was said could not be read: ${messageOf(problem)}`);
		}
		const trouble = error && { code: error.code, message: error.message };
		this.#record.emit({ type: "turn-end", messageId, ended, text: shorten(text) as string, error: trouble });
		this.told += 1;
		this.#onTold();
	}
}
