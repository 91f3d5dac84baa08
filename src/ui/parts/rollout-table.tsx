import { modelOf } from "../../model/endpoint.ts";
import type { RolloutOrder, RolloutRow } from "../../model/rollout.ts";
import { showCount, showSeconds } from "../data/figures.ts";
import { oneLine } from "../data/hostile.ts";
import { Link } from "../router.tsx";
import { Outcome } from "./outcome.tsx";
import { Reward } from "./reward.tsx";
import { Ago, useNow } from "./say.tsx";

/** `name` is the class of its cells, too. */
const COLUMNS = [
	{ name: "task", label: "task" },
	{ name: "model", label: "model" },
	{ name: "reward", label: "reward", isNumber: true, sorts: ["highest-reward", "lowest-reward"] },
	{ name: "outcome", label: "outcome" },
	{ name: "calls", label: "calls", isNumber: true },
	{ name: "tokens", label: "tokens in + out", isNumber: true, sorts: ["most-tokens", "fewest-tokens"] },
	{ name: "time", label: "time", isNumber: true, sorts: ["longest", "shortest"] },
	{ name: "begun", label: "begun", sorts: ["newest", "oldest"] },
] as const satisfies {
	name: string;
	label: string;
	isNumber?: boolean;
	/** What a click on its heading sorts by, first and then. */
	sorts?: [RolloutOrder, RolloutOrder];
}[];

export function RolloutTable({ rows }: { rows: readonly RolloutRow[] }) {
	return (
		<div className="scrolling" tabIndex={0}>
			<table className="list rollouts">
				<RolloutHead />
				<tbody>
					{rows.map((row) => (
						<tr key={row.id}>
							<RolloutCells row={row} />
						</tr>
					))}
				</tbody>
			</table>
		</div>
	);
}

interface RolloutHeadProps {
	order?: RolloutOrder;
	onOrder?: (order: RolloutOrder) => void;
	/** A column before the others, to choose rows. */
	hasChoice?: boolean;
}

export function RolloutHead({ order, onOrder, hasChoice = false }: RolloutHeadProps) {
	return (
		<thead>
			<tr>
				{hasChoice && (
					<th className="choice">
						<span className="unseen">chosen</span>
					</th>
				)}
				{COLUMNS.map((column) => {
					const sorts: readonly RolloutOrder[] = onOrder && "sorts" in column ? column.sorts : [];
					const at = order === undefined ? -1 : sorts.indexOf(order);
					return (
						<th
							key={column.name}
							className={`at-${column.name} ${"isNumber" in column ? "number" : ""}`}
							aria-sort={at < 0 ? undefined : at === 0 ? "descending" : "ascending"}
						>
							{sorts.length === 0 ? (
								column.label
							) : (
								<button type="button" className="sort" onClick={() => onOrder?.(sorts[at === 0 ? 1 : 0]!)}>
									{column.label} <span aria-hidden>{at < 0 ? "" : at === 0 ? "↓" : "↑"}</span>
								</button>
							)}
						</th>
					);
				})}
			</tr>
		</thead>
	);
}

export function RolloutCells({ row }: { row: RolloutRow }) {
	return (
		<>
			<td className="at-task one-line">
				<Link to={`/rollouts/${row.id}`} title={row.id}>
					{oneLine(row.taskId, 80)}
				</Link>
			</td>
			<td className="at-model one-line soft">{oneLine(modelOf(row.endpoint), 60)}</td>
			<td className="at-reward number">
				<Reward reward={row.reward} />
			</td>
			<td className="at-outcome one-line">
				<Outcome rollout={row} />
			</td>
			<td className="at-calls number">{row.calls}</td>
			<td className="at-tokens number">
				{showCount(row.promptTokens)} + {showCount(row.completionTokens)}
			</td>
			<td className="at-time number">
				{row.startedAt === null ? "–" : <Elapsed from={row.startedAt} to={row.finishedAt} />}
			</td>
			<td className="at-begun one-line soft">
				<Ago at={row.startedAt ?? row.createdAt} />
			</td>
		</>
	);
}

function Elapsed({ from, to }: { from: number; to: number | null }) {
	return to === null ? <Since at={from} /> : showSeconds((to - from) / 1000);
}

function Since({ at }: { at: number }) {
	return showSeconds(Math.max(0, useNow(1000) - at) / 1000);
}
