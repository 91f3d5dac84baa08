import type { Store } from "../store/store.ts";

const PAGE = 200;

/** Hands over every unfinished rollout of the store, oldest first, page by page. */
export async function eachUnfinished(
	store: Pick<Store, "list">,
	handle: (rollouts: { rolloutId: string; priority: number }[]) => Promise<void> | void,
): Promise<void> {
	for (const status of ["running", "queued"] as const) {
		let cursor: string | null = null;
		do {
			const options = { limit: PAGE, order: "oldest" as const, cursor: cursor ?? undefined };
			const page = await store.list({ status }, options);
			await handle(page.items.map(({ id, priority }) => ({ rolloutId: id, priority })));
			cursor = page.next;
		} while (cursor !== null);
	}
}
