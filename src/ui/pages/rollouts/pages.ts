import { useCallback, useEffect, useRef, useState } from "react";
import type { RolloutOrder } from "../../../model/rollout.ts";
import { extend, type Listing, type Page, refresh, takeFresh } from "../../data/listing.ts";
import { server } from "../../server.ts";
import type { Filters } from "./address.ts";

export const PAGE = 200;

/**
 * The first page as it was loaded last, and further ones below it. Rows update in place; new ones announce themselves
 * instead of pushing the reader down. `key` says what is asked for, whenever it is asked.
 */
export function usePages(key: string, filters: Filters, order: RolloutOrder, newest: Page | null) {
	const [listed, setListed] = useState<{ key: string; listing: Listing } | null>(null);
	const change = useCallback(
		(next: (before: Listing | null) => Listing | null) =>
			setListed((before) => {
				const mine = before?.key === key ? before : null;
				const listing = next(mine?.listing ?? null);
				return listing === null || listing === mine?.listing ? before : { key, listing };
			}),
		[key],
	);
	useEffect(() => {
		if (newest !== null) change((before) => refresh(before, newest, order === "newest"));
	}, [change, newest, order]);

	const listing = listed?.key === key ? listed.listing : null;
	const asked = useRef({ filters, order, next: listing?.next ?? null });
	asked.current = { filters, order, next: listing?.next ?? null };
	const isReading = useRef(false);
	const more = useCallback(async () => {
		const { filters, order, next } = asked.current;
		if (isReading.current || next === null) return;
		isReading.current = true;
		try {
			const page = await server.list({ ...filters, order, limit: PAGE, cursor: next });
			change((before) => before && extend(before, page));
		} finally {
			isReading.current = false;
		}
	}, [change]);
	return {
		rows: listing?.rows ?? [],
		fresh: listing?.fresh.length ?? 0,
		isEnd: (listing?.next ?? null) === null,
		more,
		takeFresh: () => change((before) => before && newest && takeFresh(before, newest)),
	};
}
