import { useState } from "react";
import { modelOf } from "../../model/endpoint.ts";
import type { RolloutRow } from "../../model/rollout.ts";
import { showCall, showCount, showSeconds } from "../data/figures.ts";
import { oneLine } from "../data/hostile.ts";
import { useLoaded } from "../data/loaded.ts";
import { Acting, useAction } from "../parts/asks.tsx";
import { Outcome } from "../parts/outcome.tsx";
import { Reward } from "../parts/reward.tsx";
import { Problem, useNow } from "../parts/say.tsx";
import { SideBySide } from "../parts/side-by-side.tsx";
import { Link } from "../router.tsx";
import { server } from "../server.ts";

/** Members on a shared scale; two of them side by side. */
export function GroupPage({ id }: { id: string }) {
	const { value, error, reload } = useLoaded(
		`group-${id}`,
		async () => {
			const [group, rows, figures] = await Promise.all([
				server.group(id),
				Array.fromAsync(server.listAll({ group_id: id, limit: 500, order: "oldest" })),
				server.groupFigures(id),
			]);
			return { group, rows, figures: new Map(figures.items.map((each) => [each.id, each])) };
		},
		2500,
	);
	const [pair, setPair] = useState<string[]>([]);
	const { act, isBusy, error: actError } = useAction();
	if (value === null) return <Problem error={error} onRetry={reload} />;
	const { group, rows, figures } = value;
	const isOver = group.done === group.n;
	const sideOf = (rolloutId: string) => ({
		id: rolloutId,
		number: rows.findIndex((row) => row.id === rolloutId) + 1,
	});
	const choose = (rolloutId: string) =>
		setPair((before) =>
			before.includes(rolloutId)
				? before.filter((each) => each !== rolloutId)
				: [...before, rolloutId].slice(-2),
		);
	return (
		<div className="stack">
			<header className="page-head">
				<Reward reward={group.rewardMean} large />
				<h1 className="one-line">{oneLine(group.taskId)}</h1>
				<span className="soft">
					{group.done} of {group.n} done
				</span>
				<div className="actions">
					{group.done < group.n && (
						<Acting>
							<button
								type="button"
								className="danger"
								disabled={isBusy}
								onClick={() => act(() => server.abortGroup(id))}
							>
								Abort
							</button>
						</Acting>
					)}
				</div>
			</header>
			<Problem error={error ?? actError} />
			<div className="strip">
				<div>
					<small>model</small>
					{rows[0] ? oneLine(modelOf(rows[0].endpoint)) : "–"}
				</div>
				<div>
					<small>spread</small>
					{group.rewardStd === null ? "–" : group.rewardStd.toFixed(3)}
				</div>
				{Object.entries(group.passAt).map(([k, share]) => (
					<div key={k}>
						<small>pass@{k}</small>
						{(share * 100).toFixed(0)} %
					</div>
				))}
			</div>
			<Members rows={rows} figures={figures} isOver={isOver} pair={pair} onChoose={choose} />
			{pair.length < 2 && rows.length > 1 && (
				<p className="soft">Choose two members to read their transcripts side by side.</p>
			)}
			{pair.length === 2 && <SideBySide key={pair.join()} left={sideOf(pair[0]!)} right={sideOf(pair[1]!)} />}
		</div>
	);
}

type Figures = Awaited<ReturnType<typeof server.groupFigures>>["items"][number];

interface MembersProps {
	rows: readonly RolloutRow[];
	figures: ReadonlyMap<string, Figures>;
	isOver: boolean;
	pair: readonly string[];
	onChoose: (id: string) => void;
}

/** One row each, on one axis of time. */
function Members({ rows, figures, isOver, pair, onChoose }: MembersProps) {
	const now = useNow(isOver ? 60_000 : 1000);
	const beganAt = Math.min(...rows.map((row) => row.startedAt ?? Number.POSITIVE_INFINITY));
	const wholeMs = Math.max(1, ...rows.map((row) => (row.finishedAt ?? now) - beganAt));
	const longest = Math.max(1, ...rows.map((row) => row.completionTokens));
	const widest = Math.max(1, ...[...figures.values()].map((each) => Math.abs(each.advantage ?? 0)));
	return (
		<div className="scrolling" tabIndex={0} role="region" aria-label="Members">
			<table className="list members">
				<thead>
					<tr>
						<th>
							<span className="unseen">compare</span>
						</th>
						<th>member</th>
						<th className="number">reward</th>
						<th>advantage</th>
						<th>outcome</th>
						<th>time</th>
						<th>sampled tokens</th>
						<th className="number">mean logprob</th>
						<th className="number">calls</th>
						<th>parts from 1</th>
					</tr>
				</thead>
				<tbody>
					{rows.map((row, index) => {
						const figure = figures.get(row.id);
						return (
							<tr key={row.id} className={pair.includes(row.id) ? "chosen" : ""}>
								<td className="choice">
									<input
										type="checkbox"
										aria-label={`compare member ${index + 1}`}
										checked={pair.includes(row.id)}
										onChange={() => onChoose(row.id)}
									/>
								</td>
								<td>
									<Link to={`/rollouts/${row.id}`} title={row.id}>
										{index + 1}
									</Link>
								</td>
								<td className="number">
									<Reward reward={row.reward} />
								</td>
								<td>
									<Advantage value={figure?.advantage ?? null} widest={widest} />
								</td>
								<td>
									<Outcome rollout={row} />
								</td>
								<td>
									<TimeBar row={row} beganAt={beganAt} wholeMs={wholeMs} now={now} />
								</td>
								<td>
									<span className="bar-cell">
										<i style={{ width: `${(row.completionTokens / longest) * 100}%` }} />
									</span>{" "}
									{showCount(row.completionTokens)}
								</td>
								<td className="number">{figure?.meanLogprob?.toFixed(3) ?? "–"}</td>
								<td className="number">{row.calls}</td>
								<td className="soft">{partingOf(figure, index)}</td>
							</tr>
						);
					})}
				</tbody>
			</table>
		</div>
	);
}

function partingOf(figure: Figures | undefined, index: number): string {
	if (figure === undefined || index === 0) return "–";
	return figure.differsAt === null ? "never" : `at call ${showCall(figure.differsAt)}`;
}

/** To the right what is better than the mean, to the left what is worse. */
function Advantage({ value, widest }: { value: number | null; widest: number }) {
	if (value === null) return <span className="soft">–</span>;
	const percent = (Math.abs(value) / widest) * 50;
	return (
		<span className="advantage">
			<span className="track" aria-hidden>
				<i
					className={value < 0 ? "worse" : "better"}
					style={value < 0 ? { right: "50%", width: `${percent}%` } : { left: "50%", width: `${percent}%` }}
				/>
			</span>
			{value >= 0 ? "+" : "−"}
			{Math.abs(value).toFixed(2)}
		</span>
	);
}

interface TimeBarProps {
	row: RolloutRow;
	beganAt: number;
	wholeMs: number;
	now: number;
}

function TimeBar({ row, beganAt, wholeMs, now }: TimeBarProps) {
	if (row.startedAt === null) return <span className="soft">waits</span>;
	const ms = (row.finishedAt ?? now) - row.startedAt;
	const style = {
		left: `${((row.startedAt - beganAt) / wholeMs) * 100}%`,
		width: `${Math.max(1, (ms / wholeMs) * 100)}%`,
	};
	return (
		<>
			<span className="bar-cell wide">
				<i style={style} className={row.finishedAt === null ? "pulse" : undefined} />
			</span>{" "}
			{showSeconds(ms / 1000)}
		</>
	);
}
