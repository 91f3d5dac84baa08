import { appendFileSync, mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";

const MOST = 500;

/** What a person said before, one JSON string per line, for nobody else to read. */
export class History {
	readonly #file: string;

	constructor(file: string) {
		this.#file = file;
	}

	read(): string[] {
		try {
			const lines = readFileSync(this.#file, "utf8").trimEnd().split("\n").slice(-MOST);
			return lines.flatMap((line) => toText(line) ?? []);
		} catch (error) {
			if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
			throw error;
		}
	}

	add(text: string): void {
		mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 });
		appendFileSync(this.#file, `${JSON.stringify(text)}\n`, { mode: 0o600 });
	}
}

/** A line that was cut short by a crash is none. */
function toText(line: string): string | null {
	try {
		const text: unknown = JSON.parse(line);
		return typeof text === "string" ? text : null;
	} catch {
		return null;
	}
}
