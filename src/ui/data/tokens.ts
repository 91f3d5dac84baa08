import type { Alternative, ModelCall } from "../../model/call.ts";
import type { Sample } from "../../model/sample.ts";
import { makeVisible } from "./hostile.ts";

/** One token that the engine sampled, or a stretch of prompt whose tokens have no text of their own. */
export interface Token {
	position: number;
	id: number | null;
	text: string;
	/** Null on what was not sampled: prompt, tool output, people's words. */
	logprob: number | null;
	/** Which call sampled it, or asked with it. */
	call: number;
	/** How many ids this stands for; 1 for a sampled token. */
	count: number;
	/** The likeliest at this place, when they were asked for. */
	alternatives?: readonly Alternative[] | undefined;
}

/** A stretch of one line, drawn as one element. */
export interface Run {
	text: string;
	level: number;
	/** Index of the first token in it. */
	token: number;
}

export interface TokenLine {
	runs: Run[];
	/** For each character of the line, the token it belongs to. */
	owners: Uint32Array;
	/** A new call begins here. */
	call: number | null;
}

/** Likely, then four steps of surprise; 5 is "not sampled". */
export const LEVELS = [0, -0.1, -0.7, -2, -5] as const;
export const MASKED = 5;

export function levelOf(logprob: number | null): number {
	if (logprob === null) return MASKED;
	for (let level = LEVELS.length - 1; level > 0; level -= 1) if (logprob < LEVELS[level]!) return level;
	return 0;
}

/** What ids stand for, by the engine's own word: of every token that it sampled in this rollout. */
export type Spelling = ReadonlyMap<number, string>;

export function spellingOf(calls: Iterable<ModelCall>): Spelling {
	const spelling = new Map<number, string>();
	for (const call of calls)
		call.completionIds.forEach((id, at) => {
			const text = call.completionTexts[at];
			if (text !== undefined && text !== "" && !spelling.has(id)) spelling.set(id, text);
		});
	return spelling;
}

/**
 * A branch as text. Sampled tokens bring their own. Of a prompt the engine tells ids only: without a spelling its text
 * is that of the messages it was made from, one stretch for each call; with one it is token by token, as far as the
 * same ids were sampled somewhere.
 */
export function toTokens(
	sample: Pick<Sample, "calls">,
	calls: ReadonlyMap<number, ModelCall>,
	spelling: Spelling | null = null,
): Token[] {
	const tokens: Token[] = [];
	let position = 0;
	let known = 0;
	for (const index of sample.calls) {
		const call = calls.get(index);
		if (call === undefined) continue;
		const asked = call.promptIds.slice(position);
		if (spelling !== null) for (const id of asked) tokens.push(promptToken(id, position++, index, spelling));
		else if (asked.length > 0) {
			const text = textOf(call.request.messages.slice(known));
			tokens.push({ position, id: null, text, logprob: null, call: index, count: asked.length });
			position += asked.length;
		}
		for (let offset = 0; offset < call.completionIds.length; offset += 1) {
			tokens.push({
				position: position + offset,
				id: call.completionIds[offset] ?? null,
				text: call.completionTexts[offset] ?? "",
				logprob: call.logprobs[offset] ?? null,
				call: index,
				count: 1,
				alternatives: call.alternatives?.[offset],
			});
		}
		position += call.completionIds.length;
		// The next prompt repeats these and what was just said.
		known = call.request.messages.length + 1;
	}
	return tokens;
}

function promptToken(id: number, position: number, call: number, spelling: Spelling): Token {
	return { position, id, text: spelling.get(id) ?? `⟨${id}⟩`, logprob: null, call, count: 1 };
}

function textOf(messages: readonly unknown[]): string {
	return messages
		.map((value) => {
			const message = (value ?? {}) as { role?: unknown; content?: unknown };
			const content = typeof message.content === "string" ? message.content : partsOf(message.content);
			return `⟦${String(message.role ?? "message")}⟧ ${content}\n`;
		})
		.join("");
}

function partsOf(content: unknown): string {
	if (!Array.isArray(content)) return "";
	return content
		.map((part: { text?: unknown }) => (typeof part?.text === "string" ? part.text : ""))
		.join("");
}

const LINE_CHARACTERS = 120;

/** Cut into lines for drawing: at line ends, and where a line has as many characters as fit. Linear in the text. */
export function toLines(
	tokens: readonly Token[],
	showPrompt: boolean,
	characters = LINE_CHARACTERS,
): TokenLine[] {
	const writer = new LineWriter(characters);
	let call: number | null = null;
	for (const [index, token] of tokens.entries()) {
		if (token.call !== call) {
			writer.breakLine();
			call = token.call;
			writer.startCall(call);
		}
		const level = levelOf(token.logprob);
		const isFolded = token.logprob === null && token.id === null && !showPrompt;
		const text = isFolded ? `⋯ ${token.count} prompt tokens ⋯\n` : makeVisible(token.text);
		writer.write(text === "" ? "␀" : text, level, index);
	}
	writer.breakLine();
	return writer.lines;
}

/** Room for `call 12` where one begins. */
const MARK_CHARACTERS = 8;

class LineWriter {
	readonly lines: TokenLine[] = [];
	#runs: Run[] = [];
	#owners: number[] = [];
	#call: number | null = null;
	readonly #characters: number;

	constructor(characters: number) {
		this.#characters = characters;
	}

	startCall(call: number): void {
		this.#call = call;
	}

	write(text: string, level: number, token: number): void {
		for (const [index, piece] of text.split("\n").entries()) {
			if (index > 0) {
				if (level !== MASKED) this.#add("↵", level, token);
				this.breakLine();
			}
			for (let from = 0; from < piece.length; ) {
				const mark = this.#call === null ? 0 : MARK_CHARACTERS;
				const room = this.#characters - mark - this.#owners.length;
				if (room <= 0) {
					this.breakLine();
					continue;
				}
				this.#add(piece.slice(from, from + room), level, token);
				from += room;
			}
		}
	}

	breakLine(): void {
		if (this.#runs.length === 0 && this.#call === null) return;
		this.lines.push({ runs: this.#runs, owners: Uint32Array.from(this.#owners), call: this.#call });
		this.#runs = [];
		this.#owners = [];
		this.#call = null;
	}

	#add(text: string, level: number, token: number): void {
		const last = this.#runs.at(-1);
		if (last?.level === level) last.text += text;
		else this.#runs.push({ text, level, token });
		for (let count = 0; count < text.length; count += 1) this.#owners.push(token);
	}
}
