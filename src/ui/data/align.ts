import type { Entry } from "./transcript.ts";

/** One line of two transcripts side by side. */
export interface AlignedRow {
	left: Entry | null;
	right: Entry | null;
	/** Both said or did the same. */
	isAlike: boolean;
}

/** So many steps are compared with each other; the rest stands as it came. */
const COMPARED = 500;

/** What both said and did stands in one line; what only one did stands beside an empty place, or beside what the other did instead. */
export function align(left: readonly Entry[], right: readonly Entry[]): AlignedRow[] {
	const [a, b] = [left.slice(0, COMPARED), right.slice(0, COMPARED)];
	const [words, others] = [a.map(deedOf), b.map(deedOf)];
	const common = commonLengths(words, others);
	const rows: AlignedRow[] = [];
	const alone: { left: Entry[]; right: Entry[] } = { left: [], right: [] };
	const flush = () => {
		const length = Math.max(alone.left.length, alone.right.length);
		for (let at = 0; at < length; at += 1)
			rows.push({ left: alone.left[at] ?? null, right: alone.right[at] ?? null, isAlike: false });
		alone.left = [];
		alone.right = [];
	};
	let [i, j] = [0, 0];
	while (i < a.length || j < b.length) {
		if (i < a.length && j < b.length && words[i] === others[j]) {
			flush();
			rows.push({ left: a[i++]!, right: b[j++]!, isAlike: true });
		} else if (j >= b.length || (i < a.length && common[i + 1]![j]! >= common[i]![j + 1]!))
			alone.left.push(a[i++]!);
		else alone.right.push(b[j++]!);
	}
	alone.left.push(...left.slice(COMPARED));
	alone.right.push(...right.slice(COMPARED));
	flush();
	return rows;
}

/** `common[i][j]`: how many steps the rests from i and j on have in common, in order. */
function commonLengths(words: readonly string[], others: readonly string[]): Uint16Array[] {
	const common = Array.from({ length: words.length + 1 }, () => new Uint16Array(others.length + 1));
	for (let i = words.length - 1; i >= 0; i -= 1)
		for (let j = others.length - 1; j >= 0; j -= 1)
			common[i]![j] =
				words[i] === others[j]
					? common[i + 1]![j + 1]! + 1
					: Math.max(common[i + 1]![j]!, common[i]![j + 1]!);
	return common;
}

/** What was said or asked of a tool; not what came out of it. */
function deedOf(entry: Entry): string {
	if (entry.type === "tool") return `tool ${entry.tool} ${JSON.stringify(entry.input)}`;
	if (entry.type === "permission") return `ask ${entry.permission} ${entry.patterns.join("\n")}`;
	if (entry.type === "question") return `question ${entry.questions.map((each) => each.question).join("\n")}`;
	return `${entry.type} ${entry.text}`;
}
