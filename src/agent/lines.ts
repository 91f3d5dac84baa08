import type { Readable } from "node:stream";

const MAX_LINE_CHARACTERS = 4 * 1024 * 1024;

/**
 * Calls back for every line and resolves at the end. Whatever runs in the box can write there, a line without an end too: one
 * that is too long is cut.
 */
export function readLines(
	source: Readable,
	onLine: (line: string) => void,
	maxCharacters = MAX_LINE_CHARACTERS,
): Promise<void> {
	const ended = Promise.withResolvers<void>();
	let pending = "";
	source.setEncoding("utf8").on("data", (chunk: string) => {
		const lines = (pending + chunk).split("\n");
		pending = lines.pop()!.slice(0, maxCharacters);
		for (const line of lines) onLine(line.slice(0, maxCharacters));
	});
	// A stream that breaks off has ended, too; whoever waits for the process learns why.
	source.on("error", () => ended.resolve());
	source.on("close", () => ended.resolve());
	source.on("end", () => {
		if (pending !== "") onLine(pending);
		ended.resolve();
	});
	return ended.promise;
}
