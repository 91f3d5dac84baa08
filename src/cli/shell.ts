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

/** What is piped into a command. */
export interface Input {
	readonly isTTY: boolean;
	/** All of it. */
	read(): Promise<string>;
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
		stdin: { isTTY: process.stdin.isTTY === true, read: () => text(process.stdin) },
		stdout: toOutput(process.stdout),
		stderr: toOutput(process.stderr),
		env: process.env,
		directory: process.cwd(),
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
