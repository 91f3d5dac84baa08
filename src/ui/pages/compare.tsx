import { modelOf } from "../../model/endpoint.ts";
import type { RolloutRow } from "../../model/rollout.ts";
import { showTime } from "../data/figures.ts";
import { oneLine } from "../data/hostile.ts";
import { useLoaded } from "../data/loaded.ts";
import { Reward } from "../parts/reward.tsx";
import { Empty, Problem } from "../parts/say.tsx";
import { changeQuery, Link, usePlace } from "../router.tsx";
import { server } from "../server.ts";

interface Cell {
	mean: number | null;
	count: number;
	groupId: string | null;
}

/** Tasks × models, or tasks × batches: where they disagree comes first. */
export function ComparePage() {
	const { query } = usePlace();
	const [a, b] = [query.get("a") ?? "", query.get("b") ?? ""];
	const { value, error, reload } = useLoaded(`compare-${a}-${b}`, async () => {
		const batches = (await server.batches({ limit: 100 })).items;
		const rows = [
			...(a === "" ? [] : await all({ batch_id: a })),
			...(b === "" || b === a ? [] : await all({ batch_id: b })),
		];
		return { batches, rows: a === "" ? (await server.list({ limit: 500 })).items : rows };
	});
	if (value === null) return <Problem error={error} onRetry={reload} />;
	const matrix = toMatrix(value.rows, a !== "" && b !== "" && a !== b);
	return (
		<div className="stack">
			<header className="page-head">
				<h1>Compare</h1>
			</header>
			<div className="chips">
				{(["a", "b"] as const).map((name) => (
					<select
						key={name}
						aria-label={name === "a" ? "batch" : "against batch"}
						value={query.get(name) ?? ""}
						onChange={(event) => changeQuery({ [name]: event.target.value })}
					>
						<option value="">{name === "a" ? "the last 500 rollouts" : "against no other batch"}</option>
						{value.batches.map((batch) => (
							<option key={batch.id} value={batch.id}>
								{showTime(batch.createdAt).slice(0, 16)} · {batch.size} rollouts · {batch.id.slice(-6)}
							</option>
						))}
					</select>
				))}
			</div>
			{matrix.columns.length === 0 ? <Empty>Nothing to compare yet.</Empty> : <Matrix {...matrix} />}
		</div>
	);
}

function Matrix({ columns, tasks }: ReturnType<typeof toMatrix>) {
	return (
		<div className="scrolling" tabIndex={0}>
			<table className="list matrix">
				<thead>
					<tr>
						<th>task</th>
						{columns.map((column) => (
							<th key={column}>{oneLine(column, 40)}</th>
						))}
						<th className="number">difference</th>
					</tr>
				</thead>
				<tbody>
					{tasks.map(({ taskId, cells, difference, best }) => (
						<tr key={taskId} className={difference > 0 ? "differs" : undefined}>
							<th scope="row" className="one-line">
								{oneLine(taskId, 60)}
							</th>
							{columns.map((column) => {
								const cell = cells.get(column);
								const to = cell?.groupId
									? `/groups/${cell.groupId}`
									: `/rollouts?task_id=${encodeURIComponent(taskId)}`;
								return (
									<td key={column} className={difference > 0 && cell?.mean === best ? "best" : undefined}>
										{cell === undefined ? (
											<span className="soft">–</span>
										) : (
											<Link to={to} title={`${cell.count} rollouts`}>
												<Reward reward={cell.mean} />
											</Link>
										)}
									</td>
								);
							})}
							<td className="number difference">
								{difference > 0 ? <b>{difference.toFixed(2)}</b> : <span className="soft">–</span>}
							</td>
						</tr>
					))}
				</tbody>
			</table>
		</div>
	);
}

function toMatrix(rows: readonly RolloutRow[], byBatch: boolean) {
	const columnOf = (row: RolloutRow) =>
		byBatch ? `${row.batchId?.slice(-6)} · ${modelOf(row.endpoint)}` : modelOf(row.endpoint);
	const columns = [...new Set(rows.map(columnOf))].sort();
	const byTask = Map.groupBy(rows, (row) => row.taskId);
	const tasks = [...byTask].map(([taskId, members]) => {
		const cells = new Map([...Map.groupBy(members, columnOf)].map(([column, own]) => [column, toCell(own)]));
		const means = [...cells.values()].flatMap((cell) => cell.mean ?? []);
		const [best, worst] = [Math.max(...means), Math.min(...means)];
		return { taskId, cells, best, difference: means.length < 2 ? 0 : best - worst };
	});
	tasks.sort((left, right) => right.difference - left.difference || left.taskId.localeCompare(right.taskId));
	return { columns, tasks };
}

function toCell(rows: readonly RolloutRow[]): Cell {
	const rewards = rows.flatMap((row) => row.reward ?? []);
	return {
		mean: rewards.length === 0 ? null : rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length,
		count: rows.length,
		groupId: rows.find((row) => row.groupId !== null)?.groupId ?? null,
	};
}

async function all(query: { batch_id: string }): Promise<RolloutRow[]> {
	const rows: RolloutRow[] = [];
	for await (const row of server.listAll({ ...query, limit: 500 })) rows.push(row);
	return rows;
}
