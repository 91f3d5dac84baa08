import { emitKeypressEvents } from "node:readline";
import { text } from "node:stream/consumers";

/** One output of a command: a terminal, a pipe, or a test's array. */
export interface Output {
	readonly isTTY: boolean;
	readonly columns: number;
	readonly rows: number;
	write(text: string): void;
	/** Calls back when the terminal's size has changed. */
	onResize(listener: () => void): Disposable;
}

/** One key, as a terminal sends it. */
export interface Key {
	name?: string | undefined;
	ctrl?: boolean | undefined;
	meta?: boolean | undefined;
}

/** What is piped into a command, or typed. */
export interface Input {
	readonly isTTY: boolean;
	/** All of it. */
	read(): Promise<string>;
	/** Key by key, from a terminal that shows nothing by itself; it is as before once this is disposed of. */
	keys(onKey: (input: string | undefined, key: Key) => void): Disposable;
}

/** What a command can see of the shell it was started in. */
export interface Shell {
	readonly stdin: Input;
	readonly stdout: Output;
	readonly stderr: Output;
	readonly env: Record<string, string | undefined>;
	readonly directory: string;
}

export function processShell(): Shell {
	return {
		stdin: { isTTY: process.stdin.isTTY === true, read: () => text(process.stdin), keys: readKeys },
		stdout: toOutput(process.stdout),
		stderr: toOutput(process.stderr),
		env: process.env,
		directory: process.cwd(),
	};
}

function readKeys(onKey: (input: string | undefined, key: Key) => void): Disposable {
	const { stdin } = process;
	emitKeypressEvents(stdin);
	stdin.setRawMode(true);
	stdin.on("keypress", onKey);
	stdin.resume();
	return {
		[Symbol.dispose]() {
			stdin.off("keypress", onKey);
			stdin.setRawMode(false);
			stdin.pause();
		},
	};
}

function toOutput(stream: NodeJS.WriteStream): Output {
	stream.on("error", (error: NodeJS.ErrnoException) => {
		// The reader has gone (`paddock list | head`): there is nobody left to tell anything.
		if (error.code === "EPIPE") process.exit(0);
		throw error;
	});
	return {
		get isTTY() {
			return stream.isTTY === true;
		},
		get columns() {
			return stream.columns ?? 80;
		},
		get rows() {
			return stream.rows ?? 24;
		},
		write: (text) => void stream.write(text),
		onResize(listener) {
			stream.on("resize", listener);
			return { [Symbol.dispose]: () => void stream.off("resize", listener) };
		},
	};
}

export function printLine(output: Output, text = ""): void {
	output.write(`${text}\n`);
}
