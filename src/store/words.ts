const LONGEST = 40;
const MOST = 100;

/** The words of a text as both databases index them: letters and digits, in small letters, each once. */
export function wordsOf(text: string): string[] {
	const words = text.toLowerCase().split(/[^\p{L}\p{N}]+/u);
	return [
		...new Set(words.flatMap((word) => (word === "" ? [] : word.slice(0, LONGEST).toWellFormed()))),
	].slice(0, MOST);
}
