import { modelOf } from "../../model/endpoint.ts";
import type { RolloutOrder, RolloutRow } from "../../model/rollout.ts";
import { showCount, showSeconds } from "../data/figures.ts";
import { oneLine } from "../data/hostile.ts";
import { Link } from "../router.tsx";
import { Outcome } from "./outcome.tsx";
import { Reward } from "./reward.tsx";
import { Ago } from "./say.tsx";

export const COLUMNS = [
	"task",
	"model",
	"reward",
	"outcome",
	"calls",
	"tokens in + out",
	"time",
	"begun",
] as const;
const NUMBERS = new Set<string>(["reward", "calls", "tokens in + out", "time"]);

export function RolloutTable({ rows }: { rows: readonly RolloutRow[] }) {
	return (
		<div className="scrolling" tabIndex={0}>
			<table className="list">
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

/** What a click on a heading sorts by, first and then. */
const SORTS: Partial<Record<(typeof COLUMNS)[number], [RolloutOrder, RolloutOrder]>> = {
	reward: ["highest-reward", "lowest-reward"],
	"tokens in + out": ["most-tokens", "fewest-tokens"],
	time: ["longest", "shortest"],
	begun: ["newest", "oldest"],
};

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
				{COLUMNS.map((name) => {
					const sorts = onOrder && SORTS[name];
					const at = sorts === undefined || order === undefined ? -1 : sorts.indexOf(order);
					return (
						<th
							key={name}
							className={NUMBERS.has(name) ? "number" : undefined}
							aria-sort={at < 0 ? undefined : at === 0 ? "descending" : "ascending"}
						>
							{sorts === undefined ? (
								name
							) : (
								<button type="button" className="sort" onClick={() => onOrder?.(sorts[at === 0 ? 1 : 0])}>
									{name} <span aria-hidden>{at < 0 ? "" : at === 0 ? "↓" : "↑"}</span>
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
	const endAt = row.finishedAt ?? Date.now();
	return (
		<>
			<td className="one-line">
				<Link to={`/rollouts/${row.id}`} title={row.id}>
					{oneLine(row.taskId, 80)}
				</Link>
			</td>
			<td className="one-line soft">{oneLine(modelOf(row.endpoint), 60)}</td>
			<td className="number">
				<Reward reward={row.reward} />
			</td>
			<td className="one-line">
				<Outcome rollout={row} />
			</td>
			<td className="number">{row.calls}</td>
			<td className="number">
				{showCount(row.promptTokens)} + {showCount(row.completionTokens)}
			</td>
			<td className="number">{row.startedAt === null ? "–" : showSeconds((endAt - row.startedAt) / 1000)}</td>
			<td className="one-line soft">
				<Ago at={row.startedAt ?? row.createdAt} />
			</td>
		</>
	);
}
