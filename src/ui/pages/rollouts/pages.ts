import { useEffect, useMemo, useRef, useState } from "react";
import type { RolloutOrder, RolloutRow } from "../../../model/rollout.ts";
import { server } from "../../server.ts";
import type { Filters } from "./filters.tsx";

export const PAGE = 200;

interface Listed {
	items: RolloutRow[];
	next: string | null;
}

/**
 * The first page as it was loaded last, and further ones below it. Rows update in place; new ones announce themselves
 * instead of pushing the reader down.
 */
export function usePages(key: string, filters: Filters, order: RolloutOrder, newest: Listed | null) {
	const [older, setOlder] = useState<{ key: string; rows: RolloutRow[]; next: string | null } | null>(null);
	const [seen, setSeen] = useState<{ key: string; ids: Set<string> } | null>(null);
	const isReading = useRef(false);
	useEffect(() => {
		if (newest !== null)
			setSeen((before) => (before?.key === key ? before : { key, ids: idsOf(newest.items) }));
	}, [key, newest]);

	const mine = older?.key === key ? older : null;
	const isByTime = order === "newest";
	const rows = useMemo(() => {
		const known = seen?.key === key && isByTime ? seen.ids : null;
		const all = [...(newest?.items ?? []), ...(mine?.rows ?? [])];
		const unique = [...new Map(all.map((row) => [row.id, row])).values()];
		return known === null ? unique : unique.filter((row) => known.has(row.id));
	}, [newest, mine, seen, key, isByTime]);
	const fresh = isByTime
		? (newest?.items ?? []).filter((row) => seen?.key === key && !seen.ids.has(row.id)).length
		: 0;
	const next = mine === null ? (newest?.next ?? null) : mine.next;

	const more = async () => {
		if (isReading.current || next === null) return;
		isReading.current = true;
		try {
			const page = await server.list({ ...filters, order, limit: PAGE, cursor: next });
			setOlder({ key, rows: [...(mine?.rows ?? []), ...page.items], next: page.next });
			setSeen((before) => ({
				key,
				ids: before?.key === key ? before.ids.union(idsOf(page.items)) : idsOf(page.items),
			}));
		} finally {
			isReading.current = false;
		}
	};
	const takeFresh = () =>
		setSeen((before) => ({ key, ids: (before?.ids ?? new Set<string>()).union(idsOf(newest?.items ?? [])) }));
	return { rows, fresh, more, isEnd: next === null, takeFresh };
}

function idsOf(rows: readonly RolloutRow[]): Set<string> {
	return new Set(rows.map((row) => row.id));
}
