import { z } from "zod";
import { nearest } from "./nearest.ts";

/*
 * A misspelt key is told with the key that was meant, wherever a schema of ours refuses it: in a task.yaml, over HTTP, in a tool's arguments.
 * zod takes such a sentence for all schemas at once; importing this file gives it.
 */
const MOST = 5;
const LONGEST = 100;

z.config({
	customError: (issue) => {
		if (issue.code !== "unrecognized_keys") return undefined;
		const known = Object.keys((issue.inst as z.ZodObject | undefined)?.shape ?? {});
		return issue.keys
			.slice(0, MOST)
			.map((key) => unknownKey(key, known))
			.join(" ");
	},
});

/** Ends with a mark of its own. */
export function unknownKey(key: string, known: readonly string[], what = "key"): string {
	const word = key.slice(0, LONGEST);
	const guess = nearest(word, known);
	const hint = guess === null ? `the known ones are ${known.join(", ")}.` : `did you mean "${guess}"?`;
	return `unknown ${what} ${JSON.stringify(word)}; ${hint}`;
}
