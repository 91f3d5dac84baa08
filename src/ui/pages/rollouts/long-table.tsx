import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import type { RolloutOrder, RolloutRow } from "../../../model/rollout.ts";
import { rememberList } from "../../data/neighbours.ts";
import { useKeys } from "../../parts/keys.ts";
import { COLUMNS, RolloutCells, RolloutHead } from "../../parts/rollout-table.tsx";
import { navigate } from "../../router.tsx";

const ROW_PX = 33;

interface LongTableProps {
	rows: readonly RolloutRow[];
	order: RolloutOrder;
	onOrder: (order: RolloutOrder) => void;
	chosen: ReadonlySet<string>;
	onToggle: (id: string) => void;
	onEnd?: (() => void) | undefined;
}

/** Only what can be seen is drawn, however many there are. */
export function LongTable({ rows, order, onOrder, chosen, onToggle, onEnd }: LongTableProps) {
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
	useEffect(() => rememberList(rows.map((row) => row.id)), [rows]);
	const move = (step: number) => {
		const next = Math.min(rows.length - 1, Math.max(0, at + step));
		setAt(next);
		list.scrollToIndex(next);
	};
	useKeys({
		j: () => move(1),
		k: () => move(-1),
		x: () => rows[at] && onToggle(rows[at].id),
		Enter: () => rows[at] && navigate(`/rollouts/${rows[at].id}`),
		"/": () => document.querySelector<HTMLInputElement>("[data-search]")?.focus(),
	});
	const above = items[0]?.start ?? 0;
	const below = list.getTotalSize() - (items.at(-1)?.end ?? 0);
	return (
		<div className="scrolling long" ref={scroller} role="region" aria-label="Rollouts" tabIndex={0}>
			<table className="list" aria-rowcount={rows.length}>
				<RolloutHead order={order} onOrder={onOrder} hasChoice />
				<tbody>
					<Spacer heightPx={above} />
					{items.map((item) => {
						const row = rows[item.index]!;
						return (
							<tr key={row.id} className={item.index === at || chosen.has(row.id) ? "chosen" : ""}>
								<td className="choice">
									<input
										type="checkbox"
										aria-label={`choose ${row.id}`}
										checked={chosen.has(row.id)}
										onChange={() => onToggle(row.id)}
									/>
								</td>
								<RolloutCells row={row} />
							</tr>
						);
					})}
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
			<td colSpan={COLUMNS.length + 1} style={{ height: heightPx, padding: 0, border: 0 }} />
		</tr>
	);
}
