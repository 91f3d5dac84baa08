import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useRef, useState } from "react";
import type { RolloutOrder, RolloutRow } from "../../../model/rollout.ts";
import { rememberList } from "../../data/neighbours.ts";
import { useKeys } from "../../parts/keys.ts";
import { RolloutCells, RolloutHead } from "../../parts/rollout-table.tsx";
import { navigate } from "../../router.tsx";

/** As the style sheet has it. */
const ROW_PX = 32;

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
		if (last >= rows.length - 60) onEnd?.();
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
			<table className="list rollouts" aria-rowcount={rows.length}>
				<RolloutHead order={order} onOrder={onOrder} hasChoice />
				<tbody>
					<Spacer heightPx={above} />
					{items.map((item) => {
						const row = rows[item.index]!;
						const isChosen = chosen.has(row.id);
						return <Row key={row.id} {...{ row, isChosen, onToggle }} isHere={item.index === at} />;
					})}
					<Spacer heightPx={below} />
				</tbody>
			</table>
		</div>
	);
}

interface RowProps {
	row: RolloutRow;
	isChosen: boolean;
	isHere: boolean;
	onToggle: (id: string) => void;
}

/** Drawn again only when it has changed itself. */
const Row = memo(function Row({ row, isChosen, isHere, onToggle }: RowProps) {
	return (
		<tr className={isHere || isChosen ? "chosen" : ""}>
			<td className="choice">
				<input
					type="checkbox"
					aria-label={`choose ${row.id}`}
					checked={isChosen}
					onChange={() => onToggle(row.id)}
				/>
			</td>
			<RolloutCells row={row} />
		</tr>
	);
});

function Spacer({ heightPx }: { heightPx: number }) {
	if (heightPx <= 0) return null;
	return (
		<tr aria-hidden>
			<td style={{ height: heightPx, padding: 0, border: 0 }} />
		</tr>
	);
}
