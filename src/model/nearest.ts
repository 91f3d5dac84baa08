/** The known word the caller most likely meant, if any comes close. */
export function nearest(word: string, known: readonly string[]): string | null {
	let best: { candidate: string; distance: number } | null = null;
	for (const candidate of known) {
		const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
		if (best === null || distance < best.distance) best = { candidate, distance };
	}
	const tolerated = Math.max(1, Math.floor(word.length / 3));
	if (best !== null && best.distance <= tolerated) return best.candidate;
	return known.find((candidate) => word.length >= 3 && candidate.startsWith(word)) ?? null;
}

/** Insertions, deletions, replacements and swaps of neighbours. */
function editDistance(from: string, to: string): number {
	const rows: number[][] = [Array.from({ length: to.length + 1 }, (_, column) => column)];
	for (let i = 1; i <= from.length; i += 1) {
		const row = [i];
		for (let j = 1; j <= to.length; j += 1) {
			const replace = rows[i - 1]![j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
			let cost = Math.min(rows[i - 1]![j]! + 1, row[j - 1]! + 1, replace);
			const swapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
			if (swapped) cost = Math.min(cost, rows[i - 2]![j - 2]! + 1);
			row.push(cost);
		}
		rows.push(row);
	}
	return rows[from.length]![to.length]!;
}
