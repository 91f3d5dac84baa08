import type { Input, Output, Shell } from "../../src/cli/shell.ts";

/** A shell that remembers what was written to it. */
export class RecordedShell implements Shell {
	readonly stdin: Input;
	readonly stdout = new RecordedOutput();
	readonly stderr = new RecordedOutput();
	readonly env: Record<string, string | undefined>;
	readonly directory: string;

	constructor(
		options: {
			env?: Record<string, string | undefined>;
			directory?: string;
			terminal?: boolean;
			input?: string;
		} = {},
	) {
		const { input } = options;
		const keys = () => ({ [Symbol.dispose]: () => {} });
		this.stdin = { isTTY: input === undefined, read: async () => input ?? "", keys };
		this.env = options.env ?? {};
		this.directory = options.directory ?? process.cwd();
		this.stderr.isTTY = options.terminal ?? false;
	}
}

class RecordedOutput implements Output {
	isTTY = false;
	columns = 80;
	rows = 24;
	text = "";
	writes = 0;
	#listeners = new Set<() => void>();

	write(text: string): void {
		this.text += text;
		this.writes += 1;
	}

	onResize(listener: () => void): Disposable {
		this.#listeners.add(listener);
		return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
	}

	get resizeListeners(): number {
		return this.#listeners.size;
	}
}
