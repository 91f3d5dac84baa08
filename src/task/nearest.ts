/** The candidate that differs from `word` by the fewest letters, when that is few enough to be a slip. */
export function nearest(word: string, candidates: readonly string[]): string | null {
	let best: string | null = null;
	let fewest = Math.max(1, Math.floor(word.length / 3)) + 1;
	for (const candidate of candidates) {
		const distance = editDistance(word.toLowerCase(), candidate);
		if (distance >= fewest) continue;
		best = candidate;
		fewest = distance;
	}
	return best;
}

/** Levenshtein, row by row. */
function editDistance(from: string, to: string): number {
	let row = Array.from({ length: to.length + 1 }, (_, column) => column);
	for (let i = 1; i <= from.length; i++) {
		const next = [i];
		for (let j = 1; j <= to.length; j++) {
			const replaced = row[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
			next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
		}
		row = next;
	}
	return row[to.length]!;
}
