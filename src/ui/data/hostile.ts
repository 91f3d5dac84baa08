/**
 * Text that an agent wrote is shown as text and nothing else. Terminal codes go, and characters that hide or re-order
 * what stands around them become visible.
 */

const TERMINAL_CODES =
	// Control sequences, titles and links (ended by BEL or ESC \), and two-character escapes.
	/\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-Z\\-_]|\u009b[0-?]*[ -/]*[@-~]/g;
/** Controls, marks of direction, whatever has no ink (the tags that spell ASCII unseen among them); but what shapes emoji stays. */
const UNSEEN = /(?!\t|\n|\r|\ufe0e|\ufe0f)[\p{Cc}\p{Cf}\p{DI}\u2028\u2029]/gu;

/** More than anybody reads, and enough to make a page hang. */
const SHOWN_CHARACTERS = 200_000;

export function makeVisible(text: string): string {
	return text
		.replace(/\r\n/g, "\n")
		.replace(TERMINAL_CODES, "")
		.replace(UNSEEN, (character) => `⟨${character.codePointAt(0)!.toString(16).padStart(4, "0")}⟩`);
}

/** The beginning and the end of a long text; what was left out is counted. */
export function shorten(text: string, limit = SHOWN_CHARACTERS): { text: string; leftOut: number } {
	if (text.length <= limit) return { text, leftOut: 0 };
	const half = Math.floor(limit / 2);
	const leftOut = text.length - 2 * half;
	return { text: `${text.slice(0, half)}\n⋯ ${leftOut} characters ⋯\n${text.slice(-half)}`, leftOut };
}

/** For headings and cells: one line, whatever it was. */
export function oneLine(text: string, limit = 300): string {
	const flat = makeVisible(text.slice(0, limit * 2))
		.replace(/\s+/g, " ")
		.trim();
	return flat.length > limit ? `${flat.slice(0, limit - 1)}…` : flat;
}
