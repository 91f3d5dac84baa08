import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, useState } from "react";
import type { RolloutRow } from "../../model/rollout.ts";
import { useLoaded } from "../data/loaded.ts";
import { useAction } from "../parts/asks.tsx";
import { useKeys } from "../parts/keys.ts";
import { COLUMNS, RolloutCells, RolloutHead } from "../parts/rollout-table.tsx";
import { Empty, Problem } from "../parts/say.tsx";
import { changeQuery, navigate, usePlace } from "../router.tsx";
import { server } from "../server.ts";

const PAGE = 200;
const ROW_PX = 33;

/** The filters, as the address says them. */
function filtersOf(query: URLSearchParams) {
	const text = (name: string) => query.get(name) ?? undefined;
	return {
		status: text("status") as "queued" | "running" | "done" | undefined,
		outcome: text("outcome") as (RolloutRow["outcome"] & string) | undefined,
		task_id: text("task_id"),
		group_id: text("group_id"),
		batch_id: text("batch_id"),
		label: text("label"),
	};
}

export function RolloutsPage() {
	const { query } = usePlace();
	const filters = filtersOf(query);
	const key = JSON.stringify(filters);
	const newest = useLoaded(`rollouts-${key}`, () => server.list({ ...filters, limit: PAGE }), 2500);
	const { rows, fresh, more, isEnd, takeFresh } = usePages(key, filters, newest.value);
	const { error, isBusy, act } = useAction();
	const unfinished = rows.filter((row) => row.status !== "done");
	return (
		<div className="stack">
			<header className="page-head">
				<h1>Rollouts</h1>
				<div className="actions">
					{unfinished.length > 0 && (
						<button
							type="button"
							className="danger"
							disabled={isBusy}
							onClick={() => {
								if (confirm(`Abort the ${unfinished.length} unfinished rollouts shown here?`))
									void act(() => Promise.all(unfinished.map((row) => server.abort(row.id))));
							}}
						>
							Abort {unfinished.length} unfinished
						</button>
					)}
				</div>
			</header>
			<Filters />
			<Problem error={newest.error ?? error} onRetry={newest.reload} />
			{fresh > 0 && (
				<button type="button" onClick={takeFresh}>
					{fresh} new
				</button>
			)}
			{rows.length === 0 && newest.value !== null ? (
				<Empty>No rollout fits. Loosen the filters, or launch one.</Empty>
			) : (
				<LongTable rows={rows} onEnd={isEnd ? undefined : more} />
			)}
		</div>
	);
}

function Filters() {
	const { query } = usePlace();
	const chosen = (name: string) => query.get(name) ?? "";
	const select = (name: string, values: readonly string[]) => (
		<select
			aria-label={name}
			value={chosen(name)}
			onChange={(event) => changeQuery({ [name]: event.target.value })}
		>
			<option value="">any {name}</option>
			{values.map((value) => (
				<option key={value}>{value}</option>
			))}
		</select>
	);
	return (
		<div className="chips" role="search">
			{select("status", ["queued", "running", "done"])}
			{select("outcome", ["completed", "timeout", "aborted", "budget", "failed"])}
			<Typed name="task_id" label="task" />
			<Typed name="group_id" label="group" />
			<Typed name="batch_id" label="batch" />
			<Typed name="label" label="label name=value" />
			{query.size > 0 && (
				<button type="button" className="plain" onClick={() => navigate("/rollouts")}>
					clear
				</button>
			)}
		</div>
	);
}

/** Goes into the address when it is entered, not at every letter. */
function Typed({ name, label }: { name: string; label: string }) {
	const { query } = usePlace();
	const given = query.get(name) ?? "";
	const [text, setText] = useState(given);
	useEffect(() => setText(given), [given]);
	const enter = () => text !== given && changeQuery({ [name]: text });
	return (
		<input
			data-search={name === "task_id" ? "" : undefined}
			aria-label={label}
			placeholder={label}
			value={text}
			onChange={(event) => setText(event.target.value)}
			onBlur={enter}
			onKeyDown={(event) => event.key === "Enter" && enter()}
		/>
	);
}

/** Rows update in place; new ones announce themselves instead of pushing the reader down. */
function usePages(
	key: string,
	filters: ReturnType<typeof filtersOf>,
	newest: { items: RolloutRow[]; next: string | null } | null,
) {
	const [older, setOlder] = useState<{ key: string; rows: RolloutRow[]; next: string | null } | null>(null);
	const [seen, setSeen] = useState<{ key: string; ids: Set<string> } | null>(null);
	const isReading = useRef(false);
	useEffect(() => {
		if (newest !== null)
			setSeen((before) => (before?.key === key ? before : { key, ids: idsOf(newest.items) }));
	}, [key, newest]);

	const mine = older?.key === key ? older : null;
	const rows = useMemo(() => {
		const known = seen?.key === key ? seen.ids : idsOf(newest?.items ?? []);
		const all = [...(newest?.items ?? []), ...(mine?.rows ?? [])];
		const unique = new Map(all.reverse().map((row) => [row.id, row]));
		return [...unique.values()]
			.filter((row) => known.has(row.id))
			.sort((left, right) => right.createdAt - left.createdAt || (right.id > left.id ? 1 : -1));
	}, [newest, mine, seen, key]);
	const fresh = (newest?.items ?? []).filter((row) => seen?.key === key && !seen.ids.has(row.id)).length;
	const next = mine === null ? (newest?.next ?? null) : mine.next;

	const more = async () => {
		if (isReading.current || next === null) return;
		isReading.current = true;
		try {
			const page = await server.list({ ...filters, limit: PAGE, cursor: next });
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

function LongTable({ rows, onEnd }: { rows: readonly RolloutRow[]; onEnd?: (() => void) | undefined }) {
	const scroller = useRef<HTMLDivElement>(null);
	const [at, setAt] = useState(-1);
	const list = useVirtualizer({
		count: rows.length,
		getScrollElement: () => scroller.current,
		estimateSize: () => ROW_PX,
		overscan: 12,
	});
	const items = list.getVirtualItems();
	const last = items.at(-1)?.index ?? 0;
	useEffect(() => {
		if (last >= rows.length - 20) onEnd?.();
	}, [last, rows.length, onEnd]);
	const move = (step: number) => {
		const next = Math.min(rows.length - 1, Math.max(0, at + step));
		setAt(next);
		list.scrollToIndex(next);
	};
	useKeys({
		j: () => move(1),
		k: () => move(-1),
		Enter: () => rows[at] && navigate(`/rollouts/${rows[at].id}`),
		"/": () => document.querySelector<HTMLInputElement>("[data-search]")?.focus(),
	});
	const above = items[0]?.start ?? 0;
	const below = list.getTotalSize() - (items.at(-1)?.end ?? 0);
	return (
		<div
			className="scrolling"
			ref={scroller}
			style={{ height: "calc(100vh - 190px)" }}
			role="region"
			aria-label="Rollouts"
			tabIndex={0}
		>
			<table className="list" aria-rowcount={rows.length}>
				<RolloutHead />
				<tbody>
					<Spacer heightPx={above} />
					{items.map((item) => (
						<tr key={rows[item.index]!.id} className={item.index === at ? "chosen" : ""}>
							<RolloutCells row={rows[item.index]!} />
						</tr>
					))}
					<Spacer heightPx={below} />
				</tbody>
			</table>
		</div>
	);
}

function Spacer({ heightPx }: { heightPx: number }) {
	if (heightPx <= 0) return null;
	return (
		<tr aria-hidden>
			<td colSpan={COLUMNS.length} style={{ height: heightPx, padding: 0, border: 0 }} />
		</tr>
	);
}
