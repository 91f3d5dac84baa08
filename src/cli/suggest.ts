import { nearest } from "../model/nearest.ts";

/** ` Did you mean "x"?`, or nothing. */
export function didYouMean(word: string, known: readonly string[], prefix = ""): string {
	const candidate = nearest(word, known);
	return candidate === null ? "" : ` Did you mean "${prefix}${candidate}"?`;
}
