/** A template does something this rule cannot vouch for: the plain request is the right one. */
export class Doubt extends Error {
	override readonly name = "Doubt";
}

/** Renders of the same new messages behind a stand-in for the reply, by the engine's own template. */
export interface Renders {
	/** A short history with two stand-ins that share no word: what both end with is all that follows the reply. */
	one: readonly number[];
	other: readonly number[];
	/** Like `one`, with other words in the first new message: the end of the turn stands before where they part. */
	changed: readonly number[];
	/** The real history with the first stand-in. */
	whole: readonly number[];
}

export interface Reply {
	/** The last token that was sampled. */
	last: number;
	/** The model itself ended its turn, so that token is the end of it. */
	hasEnded: boolean;
}

/**
 * The tokens that new messages add behind a reply, without a tokenizer and without knowing the template's family: only
 * from how the engine itself renders. Where the model did not end its turn (cut at the limit, at a stop string), what the
 * template puts there is added as context.
 */
export function tokensBehind(renders: Renders, reply: Reply, closers: ReadonlySet<number>): number[] {
	const { one, other, changed, whole } = renders;
	const suffix = commonSuffix(one, other);
	const part = firstDifference(one, changed);
	if (part >= Math.min(one.length, changed.length))
		throw new Doubt("the template does not show the new message");
	const region = one.slice(one.length - suffix.length, part);
	const end = region.findIndex((id) => (reply.hasEnded ? id === reply.last : closers.has(id)));
	if (end < 0) throw new Doubt("no end of turn behind the reply");
	const added = suffix.slice(reply.hasEnded ? end + 1 : end);
	const from = whole.length - added.length;
	const isSame = added.every((id, index) => whole[from + index] === id);
	if (from < 1 || !isSame || (reply.hasEnded && whole[from - 1] !== reply.last))
		throw new Doubt("the template looks further back");
	return added;
}

/** What two renders with different replies share at their end. */
export function commonSuffix(one: readonly number[], other: readonly number[]): number[] {
	let count = 0;
	while (count < one.length && count < other.length && one.at(-1 - count) === other.at(-1 - count))
		count += 1;
	if (count === 0 || count === one.length || count === other.length)
		throw new Doubt("the template does not show the reply");
	return one.slice(one.length - count);
}

function firstDifference(one: readonly number[], other: readonly number[]): number {
	let at = 0;
	while (at < one.length && at < other.length && one[at] === other[at]) at += 1;
	return at;
}
