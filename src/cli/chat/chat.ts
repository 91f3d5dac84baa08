import { messageOf } from "../../errors.ts";
import { onInterrupt } from "../run/interrupt.ts";
import type { Key, Shell } from "../shell.ts";
import { oneLine, type Paint, paintFor, printable, widthOf } from "../terminal/style.ts";
import { askCard, toAnswers } from "./ask-card.ts";
import { Editor } from "./editor.ts";
import type { ChatEvent, Partner } from "./partner.ts";
import { type Region, Screen, wrap } from "./screen.ts";
import { Story } from "./story.ts";
import { VERBOSITIES, type Verbosity } from "./tools.ts";

export interface ChatOptions {
	id: string;
	partner: Partner;
	shell: Shell;
	history: readonly string[];
	verbosity: Verbosity;
	me: string;
	/** It can be talked to already. */
	isReady: boolean;
	/** Of the agent, where it is known already. */
	sessionId: string | null;
	/** Keeps what was said, for another time. */
	remember(text: string): void;
	/** How often clocks move. */
	tickMs?: number;
	/** How to come back. */
	goodbye: string;
}

/** Twice within so long leaves. */
const TWICE_MS = 2_000;
const SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏";
const HELP = `/model <name>            the model from now on      /verbosity <${VERBOSITIES.join("|")}>
/files                   what was changed           /diff [file]  how it was changed
/quit                    leave; paddock chat --resume comes back
Ctrl-C or Esc interrupts, Ctrl-C twice leaves. Alt-Enter, or \\ before Enter, begins a new line. Up and down: what you said before.`;

/** One conversation on one terminal. */
export class Chat {
	readonly #options: ChatOptions;
	readonly #paint: Paint;
	readonly #editor: Editor;
	readonly #story: Story;
	readonly #screen: Screen;
	readonly #left = Promise.withResolvers<"left">();
	/** A reason for a denial is being written. */
	#isRejecting = false;
	#interruptedAt = Number.NEGATIVE_INFINITY;
	#notice = "";
	#isLeaving = false;

	constructor(options: ChatOptions) {
		this.#options = options;
		this.#paint = paintFor(options.shell.stdout, options.shell.env);
		this.#editor = new Editor(options.history);
		this.#screen = new Screen(options.shell.stdout, () => this.#draw(), options.tickMs);
		const print = (...lines: string[]) => this.#screen.print(...lines);
		this.#story = new Story({ ...options, paint: this.#paint, print });
		this.#story.sessionId = options.sessionId;
		if (options.isReady) this.#story.phase = "";
	}

	/** Resolves when the person has left, or the conversation is over: then it says why. */
	async run(after: number, asked: readonly ChatEvent[]): Promise<string | null> {
		const { id, partner, shell } = this.#options;
		const stop = new AbortController();
		using _keys = shell.stdin.keys((input, key) => this.#press(input, key));
		using _screen = this.#screen;
		// A terminal that is closed: what was said is kept all the same.
		using _signals = onInterrupt(() => this.#leave());
		for (const event of asked) this.#story.take(event);
		this.#screen.now();
		const following = partner
			.follow(id, (event) => this.#take(event), { after, signal: stop.signal })
			.catch((error) => {
				this.#story.ended ??= messageOf(error);
			});
		await Promise.race([following, this.#left.promise]);
		if (this.#isLeaving) await this.#close(following);
		stop.abort();
		await following;
		return this.#isLeaving ? null : (this.#story.ended ?? "it is over");
	}

	/** Closed in good order: what was said and done is kept. */
	async #close(following: Promise<void>): Promise<void> {
		const { id, partner, goodbye } = this.#options;
		this.#notice = "Saving …";
		this.#screen.now();
		try {
			await partner.close(id);
			await following;
		} catch (error) {
			this.#screen.print(this.#paint("red", oneLine(messageOf(error))));
		}
		this.#screen.print("", this.#paint("dim", goodbye));
	}

	#take(event: ChatEvent): void {
		this.#story.take(event);
		if (this.#story.asks.length === 0) this.#isRejecting = false;
		this.#screen.changed();
	}

	#press(input: string | undefined, key: Key): void {
		const isControlC = key.ctrl === true && key.name === "c";
		// It should have ended by now: nobody has to wait for it.
		if (this.#isLeaving && isControlC) process.exit(130);
		if (this.#isLeaving) return;
		this.#notice = "";
		if (isControlC) this.#controlC();
		else if (key.ctrl && key.name === "d" && this.#editor.text === "") this.#leave();
		else if (key.name === "escape") this.#escape();
		else if (key.ctrl && key.name === "o") this.#nextVerbosity();
		else if (!this.#decide(input) && this.#editor.press(input, key) === "send") this.#send();
		this.#screen.now();
	}

	#controlC(): void {
		const now = performance.now();
		if (now - this.#interruptedAt < TWICE_MS) {
			this.#leave();
			return;
		}
		this.#interruptedAt = now;
		if (this.#story.isBusy) this.#interrupt();
		else if (this.#editor.text !== "") this.#editor.clear();
		this.#notice = "Ctrl-C once more to leave";
	}

	#escape(): void {
		const [ask] = this.#story.asks;
		if (this.#isRejecting) {
			this.#isRejecting = false;
			this.#editor.clear();
			return;
		}
		if (ask?.type === "question-ask") {
			this.#act((partner, id) => partner.answer(id, ask.requestId, null));
			return;
		}
		if (this.#story.isBusy) this.#interrupt();
	}

	#interrupt(): void {
		this.#act((partner, id) => partner.interrupt(id));
	}

	/** One key decides, as long as nothing is being written. */
	#decide(input: string | undefined): boolean {
		const [ask] = this.#story.asks;
		if (ask?.type !== "permission-ask" || this.#isRejecting || this.#editor.text !== "") return false;
		if (input === "n") {
			this.#isRejecting = true;
			return true;
		}
		const reply = input === "y" ? "once" : input === "a" ? "always" : null;
		if (reply === null) return false;
		const what = oneLine(`${ask.permission} ${ask.patterns.join(" ")}`);
		this.#screen.print(this.#paint("dim", `  Permitted${reply === "always" ? " from now on" : ""}: ${what}`));
		this.#act((partner, id) => partner.permit(id, ask.requestId, { reply }));
		return true;
	}

	#send(): void {
		const text = this.#editor.take().trim();
		const [ask] = this.#story.asks;
		if (this.#isRejecting && ask?.type === "permission-ask") {
			this.#isRejecting = false;
			const why = text === "" ? {} : { message: text };
			this.#screen.print(this.#paint("dim", `  Denied: ${oneLine(text === "" ? "without a reason" : text)}`));
			this.#act((partner, id) => partner.permit(id, ask.requestId, { reply: "reject", ...why }));
			return;
		}
		if (text === "") return;
		if (text.startsWith("/")) {
			this.#command(text);
			return;
		}
		if (ask?.type === "question-ask") {
			this.#screen.print(this.#paint("dim", `  Answered: ${oneLine(text)}`));
			this.#act((partner, id) => partner.answer(id, ask.requestId, toAnswers(ask, text)));
			return;
		}
		this.#options.remember(text);
		this.#story.sent(text);
		this.#act((partner, id) => partner.say(id, text));
	}

	#command(text: string): void {
		const [name = "", ...words] = text.split(/\s+/);
		const rest = words.join(" ");
		if (name === "/quit" || name === "/exit") {
			this.#leave();
			return;
		}
		if (name === "/help") {
			this.#screen.print(this.#paint("dim", HELP));
			return;
		}
		if (name === "/files") {
			this.#files();
			return;
		}
		if (name === "/diff") {
			this.#diff(rest);
			return;
		}
		if (name === "/verbosity" || name === "/tools") {
			this.#setVerbosity(rest);
			return;
		}
		if (name === "/model" && rest !== "") {
			this.#act((partner, id) => partner.setModel(id, rest));
			return;
		}
		const known =
			name === "/model"
				? "/model wants a name, as its endpoint calls it."
				: `There is no ${name}: see /help.`;
		this.#screen.print(this.#paint("yellow", printable(known)));
	}

	#files(): void {
		const lines = [...this.#story.changes].map(([path, diffs]) => `  ${oneLine(path)}  ${countOf(diffs)}`);
		this.#screen.print(
			...(lines.length > 0 ? lines : [this.#paint("dim", "Nothing was changed with a tool so far.")]),
		);
	}

	#diff(path: string): void {
		const found = [...this.#story.changes].filter(([file]) => path === "" || file.endsWith(path));
		if (found.length === 0) {
			this.#screen.print(this.#paint("dim", "Nothing was changed with a tool so far."));
			return;
		}
		for (const line of found
			.flatMap(([, diffs]) => diffs)
			.join("\n")
			.split("\n")) {
			const style = line.startsWith("+") ? "green" : line.startsWith("-") ? "red" : "dim";
			this.#screen.print(this.#paint(style, printable(line)));
		}
	}

	#setVerbosity(name: string): void {
		const found = VERBOSITIES.find((each) => each === name);
		if (found !== undefined) this.#story.verbosity = found;
		const said = found ?? `one of ${VERBOSITIES.join(", ")}; now ${this.#story.verbosity}`;
		this.#screen.print(this.#paint("dim", `Tools: ${said}`));
	}

	#nextVerbosity(): void {
		const at = VERBOSITIES.indexOf(this.#story.verbosity);
		this.#story.verbosity = VERBOSITIES[(at + 1) % VERBOSITIES.length]!;
		this.#notice = `tools: ${this.#story.verbosity}`;
	}

	#leave(): void {
		this.#isLeaving = true;
		this.#left.resolve("left");
	}

	#act(act: (partner: Partner, id: string) => Promise<void>): void {
		const { partner, id } = this.#options;
		act(partner, id).catch((error) => this.#screen.print(this.#paint("red", oneLine(messageOf(error)))));
	}

	#draw(): Region {
		const width = Math.max(10, this.#options.shell.stdout.columns - 1);
		const { partial, running, asks } = this.#story;
		const [ask] = asks;
		const above = [
			...(partial === "" ? [] : wrap(partial, width).slice(-this.#options.shell.stdout.rows)),
			...running.slice(0, 5).flatMap((line) => wrap(`  … ${line}`, width).slice(0, 1)),
			...(ask === undefined || this.#isLeaving ? [] : askCard(ask, asks.length, this.#paint)),
			"",
			...wrap(this.#status(), width)
				.slice(0, 1)
				.map((line) => this.#paint("dim", line)),
		];
		const label = this.#isRejecting ? "why not? " : "> ";
		const before = `${label}${this.#editor.text.slice(0, this.#editor.cursor)}`;
		const whole = `${label}${this.#editor.text}`;
		const rows = (text: string) => text.split("\n").flatMap((line) => wrap(line, width));
		const place = rows(before);
		const cursor = { line: above.length + place.length - 1, column: widthOf(place.at(-1)!) };
		return { lines: [...above, ...rows(whole)], cursor };
	}

	#status(): string {
		const { isBusy, busySince, phase } = this.#story;
		if (this.#notice !== "") return this.#notice;
		const beat = SPINNER[Math.floor(performance.now() / 100) % SPINNER.length];
		if (phase !== "" && !this.#isLeaving) return `${beat} ${phase} …`;
		if (!isBusy) return "/help for help";
		const seconds = Math.floor((performance.now() - busySince) / 1000);
		return `${beat} working ${seconds} s · Ctrl-C interrupts`;
	}
}

function countOf(diffs: readonly string[]): string {
	const lines = diffs.join("\n").split("\n");
	const added = lines.filter((line) => /^\+(?!\+\+)/.test(line)).length;
	const removed = lines.filter((line) => /^-(?!--)/.test(line)).length;
	return `+${added} -${removed}`;
}
