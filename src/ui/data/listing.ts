import type { RolloutRow } from "../../model/rollout.ts";

export interface Page {
	items: readonly RolloutRow[];
	next: string | null;
}

/** A list that is read page by page while its beginning changes. */
export interface Listing {
	rows: readonly RolloutRow[];
	/** New ones that wait above, until the reader asks for them. */
	fresh: readonly RolloutRow[];
	/** Where the next page begins. */
	next: string | null;
	/** So many came that the first page and these rows have nothing in common. */
	isApart: boolean;
}

/**
 * The first page, read again. Rows change in place; what newer ones pushed off that page stays below it; what is missing from its
 * middle no longer fits. `holdsBack`: new rows wait instead of pushing the reader down.
 */
export function refresh(before: Listing | null, page: Page, holdsBack: boolean): Listing {
	if (before === null) return { rows: page.items, fresh: [], next: page.next, isApart: false };
	const now = new Map(page.items.map((row) => [row.id, row]));
	const known = new Set(before.rows.map((row) => row.id));
	const lastShared = page.next === null ? Infinity : before.rows.findLastIndex((row) => now.has(row.id));
	const below = before.rows.filter((row, index) => index > lastShared && !now.has(row.id));
	const items = holdsBack ? page.items.filter((row) => known.has(row.id)) : page.items;
	const fresh = holdsBack ? page.items.filter((row) => !known.has(row.id)) : [];
	return keptWhereSame(before, {
		rows: [...items, ...below],
		fresh,
		next: page.next === null ? null : before.next,
		isApart: page.next !== null && lastShared < 0,
	});
}

/** Another page below. */
export function extend(before: Listing, page: Page): Listing {
	const known = new Set(before.rows.map((row) => row.id));
	const added = page.items.filter((row) => !known.has(row.id));
	return { ...before, rows: [...before.rows, ...added], next: page.next };
}

/** The reader asked for the new ones. */
export function takeFresh(before: Listing, page: Page): Listing {
	if (before.isApart) return refresh(null, page, true);
	return { ...before, rows: [...before.fresh, ...before.rows], fresh: [] };
}

/** What did not change stays the same object, so that nothing is drawn anew for it. */
function keptWhereSame(before: Listing, after: Listing): Listing {
	const [rows, fresh] = [keepSame(before.rows, after.rows), keepSame(before.fresh, after.fresh)];
	const isSame =
		rows === before.rows &&
		fresh === before.fresh &&
		after.next === before.next &&
		after.isApart === before.isApart;
	return isSame ? before : { ...after, rows, fresh };
}

function keepSame(before: readonly RolloutRow[], after: readonly RolloutRow[]): readonly RolloutRow[] {
	const known = new Map(before.map((row) => [row.id, row]));
	const rows = after.map((row) => {
		const old = known.get(row.id);
		return old === row || (old !== undefined && JSON.stringify(old) === JSON.stringify(row)) ? old! : row;
	});
	const isSame = rows.length === before.length && rows.every((row, index) => row === before[index]);
	return isSame ? before : rows;
}
