/** The list that was looked at last, so that one can go through it rollout by rollout. */
let listed: readonly string[] = [];

export function rememberList(ids: readonly string[]): void {
	listed = ids;
}

/** The one before or after it in that list; null at its ends. */
export function neighbourOf(id: string, step: -1 | 1): string | null {
	const at = listed.indexOf(id);
	return at < 0 ? null : (listed[at + step] ?? null);
}
