import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";

export function hasTmux(): boolean {
	return spawnSync("tmux", ["-V"]).status === 0;
}

/** A real terminal to run a program in, and to look at. */
export class Terminal implements Disposable {
	readonly #socket = `paddock-test-${randomBytes(4).toString("hex")}`;

	constructor(command: string, size: { columns: number; rows: number }) {
		// `cat` keeps the screen there to be looked at when the program has ended; it shows nothing itself.
		const shown = `stty -echo; tmux -L ${this.#socket} wait-for -S silent; ${command}; exec cat`;
		const opening = ["new-session", "-d", "-x", `${size.columns}`, "-y", `${size.rows}`, shown];
		this.#tmux("-f", "/dev/null", "start-server", ";", "set", "-g", "status", "off", ";", ...opening);
		// Until then the terminal itself would show what is typed.
		this.#tmux("wait-for", "silent");
	}

	type(line: string): void {
		this.#tmux("send-keys", "-l", line);
		this.#tmux("send-keys", "Enter");
	}

	/** One key as tmux calls it: y, C-c, Escape. */
	press(key: string): void {
		this.#tmux("send-keys", key);
	}

	resize(columns: number, rows: number): void {
		this.#tmux("resize-window", "-x", `${columns}`, "-y", `${rows}`);
	}

	/** The whole screen with what has scrolled away, without blank lines. */
	lines(): string[] {
		return this.#tmux("capture-pane", "-p", "-S", "-100")
			.split("\n")
			.filter((line) => line.trim() !== "");
	}

	get isCursorShown(): boolean {
		return this.#tmux("display-message", "-p", "#{cursor_flag}").trim() === "1";
	}

	[Symbol.dispose](): void {
		this.#tmux("kill-server");
	}

	#tmux(...args: string[]): string {
		return execFileSync("tmux", ["-L", this.#socket, ...args], { encoding: "utf8" });
	}
}
