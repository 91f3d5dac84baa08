import { carefully } from "../log.ts";
import type { LiveText } from "../model/live-text.ts";
import type { Live, Voice } from "./live.ts";
import { type Piece, Texts } from "./texts.ts";

type Listener = (text: LiveText) => void;

interface Channel {
	texts: Texts;
	voices: number;
	listeners: Set<Listener>;
}

/** What others may want to know of one process's channels. */
export interface LocalWatch {
	said?(id: string, piece: Piece): void;
	finished?(id: string, partId: string): void;
	/** The first listener came, or the last one left. */
	listened?(id: string, isHeard: boolean): void;
}

/** The live texts of one process: those of the agents it runs, and those that other processes told it. */
export class LocalLive implements Live {
	readonly #channels = new Map<string, Channel>();
	readonly #watch: LocalWatch;

	constructor(watch: LocalWatch = {}) {
		this.#watch = watch;
	}

	speak(id: string): Voice {
		const channel = this.#open(id);
		channel.voices += 1;
		return {
			say: (text) => {
				// What the agent says of a text holds for all that stood after it.
				const piece = this.take(id, { ...text, cuts: true });
				if (piece !== null && piece !== "gap") this.#watch.said?.(id, piece);
			},
			finished: (partId) => {
				this.finish(id, partId);
				this.#watch.finished?.(id, partId);
			},
			[Symbol.dispose]: () => {
				channel.voices -= 1;
				if (channel.voices === 0) channel.texts.clear();
				this.#closeUnused(id, channel);
			},
		};
	}

	hear(id: string, onText: Listener): Disposable {
		const channel = this.#open(id);
		// Each is its own entry, even if two share one function.
		const listener: Listener = (text) => carefully(() => onText(text));
		channel.listeners.add(listener);
		for (const piece of channel.texts.all()) listener(toText(piece));
		if (channel.listeners.size === 1) this.#watch.listened?.(id, true);
		return {
			[Symbol.dispose]: () => {
				if (!channel.listeners.delete(listener) || channel.listeners.size > 0) return;
				this.#watch.listened?.(id, false);
				if (channel.voices === 0) channel.texts.clear();
				this.#closeUnused(id, channel);
			},
		};
	}

	/** A piece from wherever; what is new in it goes to the listeners. */
	take(id: string, piece: Piece): Piece | null | "gap" {
		const channel = this.#channels.get(id);
		if (channel === undefined) return null;
		const fresh = channel.texts.take(piece);
		if (fresh !== null && fresh !== "gap")
			for (const listener of [...channel.listeners]) listener(toText(fresh));
		return fresh;
	}

	finish(id: string, partId: string): void {
		this.#channels.get(id)?.texts.forget(partId);
	}

	/** Whether this process runs the agent. */
	speaks(id: string): boolean {
		return (this.#channels.get(id)?.voices ?? 0) > 0;
	}

	/** Those whose agents this process runs. */
	spoken(): string[] {
		return [...this.#channels].flatMap(([id, { voices }]) => (voices > 0 ? [id] : []));
	}

	/** Those that are listened to here and spoken elsewhere. */
	awaited(): string[] {
		return [...this.#channels].flatMap(([id, { voices, listeners }]) =>
			voices === 0 && listeners.size > 0 ? [id] : [],
		);
	}

	all(id: string): Piece[] {
		return this.#channels.get(id)?.texts.all() ?? [];
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#channels.clear();
	}

	#open(id: string): Channel {
		const channel = this.#channels.get(id) ?? { texts: new Texts(), voices: 0, listeners: new Set() };
		this.#channels.set(id, channel);
		return channel;
	}

	#closeUnused(id: string, channel: Channel): void {
		const isUnused = channel.voices === 0 && channel.listeners.size === 0;
		if (isUnused && this.#channels.get(id) === channel) this.#channels.delete(id);
	}
}

function toText({ cuts, ...text }: Piece): LiveText {
	return text;
}
