import { useState } from "react";
import { modelOf } from "../../model/endpoint.ts";
import type { RolloutRow } from "../../model/rollout.ts";
import { showCount, showSeconds } from "../data/figures.ts";
import { oneLine } from "../data/hostile.ts";
import { useLoaded } from "../data/loaded.ts";
import { useRolloutFeed } from "../data/rollout-feed.ts";
import { readTranscript } from "../data/transcript.ts";
import { Acting, useAction } from "../parts/asks.tsx";
import { Outcome } from "../parts/outcome.tsx";
import { Reward } from "../parts/reward.tsx";
import { Problem } from "../parts/say.tsx";
import { Transcript } from "../parts/transcript.tsx";
import { Link } from "../router.tsx";
import { server } from "../server.ts";

/** Members on a shared scale; two of them side by side. */
export function GroupPage({ id }: { id: string }) {
	const { value, error, reload } = useLoaded(
		`group-${id}`,
		async () => {
			const [group, rows] = await Promise.all([
				server.group(id),
				server.list({ group_id: id, limit: 500, order: "oldest" }),
			]);
			return { group, rows: rows.items };
		},
		2500,
	);
	const [pair, setPair] = useState<string[]>([]);
	const { act, isBusy, error: actError } = useAction();
	if (value === null) return <Problem error={error} onRetry={reload} />;
	const { group, rows } = value;
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
			<Members rows={rows} mean={group.rewardMean} spread={group.rewardStd} pair={pair} onChoose={choose} />
			{pair.length === 2 && (
				<div className="side-by-side">
					{pair.map((rolloutId) => (
						<Side key={rolloutId} id={rolloutId} />
					))}
				</div>
			)}
		</div>
	);
}

interface MembersProps {
	rows: readonly RolloutRow[];
	mean: number | null;
	spread: number | null;
	pair: readonly string[];
	onChoose: (id: string) => void;
}

function Members({ rows, mean, spread, pair, onChoose }: MembersProps) {
	const longest = Math.max(1, ...rows.map((row) => row.completionTokens));
	return (
		<div className="scrolling" tabIndex={0}>
			<table className="list">
				<thead>
					<tr>
						<th>
							<span className="soft">compare</span>
						</th>
						<th>rollout</th>
						<th className="number">reward</th>
						<th className="number">advantage</th>
						<th>outcome</th>
						<th>sampled tokens</th>
						<th className="number">calls</th>
						<th className="number">time</th>
					</tr>
				</thead>
				<tbody>
					{rows.map((row, index) => {
						const advantage =
							row.reward === null || mean === null ? null : spread ? (row.reward - mean) / spread : 0;
						return (
							<tr key={row.id} className={pair.includes(row.id) ? "chosen" : ""}>
								<td>
									<input
										type="checkbox"
										aria-label={`compare member ${index + 1}`}
										checked={pair.includes(row.id)}
										onChange={() => onChoose(row.id)}
									/>
								</td>
								<td className="one-line">
									<Link to={`/rollouts/${row.id}`} title={row.id}>
										member {index + 1}
									</Link>
								</td>
								<td className="number">
									<Reward reward={row.reward} />
								</td>
								<td className={`number ${advantage !== null && advantage < 0 ? "bad" : ""}`}>
									{advantage === null
										? "–"
										: `${advantage >= 0 ? "+" : "−"}${Math.abs(advantage).toFixed(2)}`}
								</td>
								<td>
									<Outcome rollout={row} />
								</td>
								<td>
									<meter
										min={0}
										max={longest}
										value={row.completionTokens}
										aria-label={`tokens of member ${index + 1}`}
									/>{" "}
									{showCount(row.completionTokens)}
								</td>
								<td className="number">{row.calls}</td>
								<td className="number">
									{row.startedAt === null
										? "–"
										: showSeconds(((row.finishedAt ?? Date.now()) - row.startedAt) / 1000)}
								</td>
							</tr>
						);
					})}
				</tbody>
			</table>
		</div>
	);
}

function Side({ id }: { id: string }) {
	const feed = useRolloutFeed(id);
	const { value } = useLoaded(`side-${id}`, () => server.get(id));
	if (value === null) return null;
	return (
		<section className="card" aria-label={id}>
			<h2>
				<Link to={`/rollouts/${id}`}>{id}</Link> <Reward reward={value.reward} />
			</h2>
			<Transcript
				rolloutId={id}
				entries={readTranscript(value.request.task.instruction, feed.events)}
				isLive={false}
			/>
		</section>
	);
}
