import type { Key } from "../shell.ts";

/** What a key asks for besides changing the text. */
export type Wish = "send" | "none" | "unknown";

const WORD_BEFORE = /\S+\s*$/;
const WORD_AFTER = /^\s*\S+/;

/** The text that a person is writing, with the keys they know from their shell, and what they wrote before. */
export class Editor {
	#text = "";
	#cursor = 0;
	#isPasting = false;
	readonly #history: string[];
	/** Where in the history one is; its length means: at what is being written. */
	#at: number;
	#unsent = "";

	constructor(history: readonly string[] = []) {
		this.#history = [...history];
		this.#at = this.#history.length;
	}

	get text(): string {
		return this.#text;
	}

	get cursor(): number {
		return this.#cursor;
	}

	/** Empties it, and remembers it. */
	take(): string {
		const text = this.#text;
		if (text.trim() !== "" && this.#history.at(-1) !== text) this.#history.push(text);
		this.clear();
		return text;
	}

	clear(): void {
		this.#set("", 0);
		this.#at = this.#history.length;
	}

	press(input: string | undefined, key: Key): Wish {
		if (key.name === "paste-start" || key.name === "paste-end") {
			this.#isPasting = key.name === "paste-start";
			return "none";
		}
		if (key.name === "return" || key.name === "enter") return this.#enter(key);
		if (key.ctrl || key.meta) return this.#shortcut(key);
		if (this.#moved(key.name)) return "none";
		const typed = key.name === "tab" ? (this.#isPasting ? "\t" : "") : (input ?? "");
		// Keys that say nothing here come as sequences.
		if (typed === "" || /[\x00-\x08\x0b-\x1f\x7f]/.test(typed)) return "unknown";
		this.#insert(typed);
		return "none";
	}

	#enter(key: Key): Wish {
		const goesOn = this.#text[this.#cursor - 1] === "\\";
		if (!this.#isPasting && !key.meta && !goesOn && key.name === "return") return "send";
		if (goesOn && !this.#isPasting) this.#set(this.#cut(this.#cursor - 1, this.#cursor), this.#cursor - 1);
		this.#insert("\n");
		return "none";
	}

	#shortcut({ name = "", ctrl, meta }: Key): Wish {
		const before = this.#text.slice(0, this.#cursor);
		const after = this.#text.slice(this.#cursor);
		const length = {
			before: WORD_BEFORE.exec(before)?.[0].length,
			after: WORD_AFTER.exec(after)?.[0].length,
		};
		if (ctrl && name === "a") this.#cursor = 0;
		else if (ctrl && name === "e") this.#cursor = this.#text.length;
		else if (ctrl && name === "u") this.#set(after, 0);
		else if (ctrl && name === "k") this.#set(before, before.length);
		else if ((ctrl && name === "w") || (meta && name === "backspace"))
			this.#set(
				this.#cut(this.#cursor - (length.before ?? 0), this.#cursor),
				this.#cursor - (length.before ?? 0),
			);
		else if ((meta && name === "b") || (ctrl && name === "left")) this.#cursor -= length.before ?? 0;
		else if ((meta && name === "f") || (ctrl && name === "right")) this.#cursor += length.after ?? 0;
		else return "unknown";
		return "none";
	}

	#moved(name: string | undefined): boolean {
		const step = (direction: -1 | 1) => stepFrom(this.#text, this.#cursor, direction);
		if (name === "left") this.#cursor = step(-1);
		else if (name === "right") this.#cursor = step(1);
		else if (name === "home") this.#cursor = 0;
		else if (name === "end") this.#cursor = this.#text.length;
		else if (name === "backspace") this.#set(this.#cut(step(-1), this.#cursor), step(-1));
		else if (name === "delete") this.#set(this.#cut(this.#cursor, step(1)), this.#cursor);
		else if (name === "up") this.#recall(-1);
		else if (name === "down") this.#recall(1);
		else return false;
		return true;
	}

	#recall(direction: -1 | 1): void {
		const at = this.#at + direction;
		if (at < 0 || at > this.#history.length) return;
		if (this.#at === this.#history.length) this.#unsent = this.#text;
		this.#at = at;
		const text = this.#history[at] ?? this.#unsent;
		this.#set(text, text.length);
	}

	#insert(text: string): void {
		const clean = text.replaceAll("\r\n", "\n").replaceAll("\r", "\n");
		this.#set(
			this.#text.slice(0, this.#cursor) + clean + this.#text.slice(this.#cursor),
			this.#cursor + clean.length,
		);
	}

	#cut(from: number, to: number): string {
		return this.#text.slice(0, from) + this.#text.slice(to);
	}

	#set(text: string, cursor: number): void {
		this.#text = text;
		this.#cursor = cursor;
	}
}

/** One character, however many code units it has. */
function stepFrom(text: string, cursor: number, direction: -1 | 1): number {
	const next = cursor + direction;
	if (next < 0 || next > text.length) return cursor;
	const isInside = /[\udc00-\udfff]/.test(text[next] ?? "") && /[\ud800-\udbff]/.test(text[next - 1] ?? "");
	return isInside ? next + direction : next;
}
