import { useMemo } from "react";
import type { RolloutRow } from "../../model/rollout.ts";
import { showCount } from "../data/figures.ts";
import { useLoaded } from "../data/loaded.ts";
import { Plot } from "../parts/plot.tsx";
import { RolloutTable } from "../parts/rollout-table.tsx";
import { Empty, Problem } from "../parts/say.tsx";
import { Link } from "../router.tsx";
import { server } from "../server.ts";

const RECENT = 500;

/** Is it healthy: totals, rewards and throughput over time, what happened last. */
export function HomePage() {
	const { value, error, reload } = useLoaded(
		"home",
		async () => {
			const [status, workers, recent] = await Promise.all([
				server.status(),
				server.workers(),
				server.list({ limit: RECENT }),
			]);
			return { status, workers: workers.items, recent: recent.items };
		},
		3000,
	);
	if (value === null)
		return error === null ? <p className="soft">Reading …</p> : <Problem error={error} onRetry={reload} />;
	const { status, workers, recent } = value;
	return (
		<div className="stack">
			<header className="page-head">
				<h1>Paddock</h1>
				<div className="actions">
					<Link className="button main" to="/launch">
						Launch
					</Link>
				</div>
			</header>
			<Problem error={error} />
			<div className="cards">
				<Figure label="running" value={status.rollouts.running} />
				<Figure label="queued" value={status.rollouts.queued} />
				<Figure label="done" value={status.rollouts.done} />
				<Figure label="workers" value={workers.length} note={`${status.capacity} at once`} />
			</div>
			{recent.length === 0 ? (
				<Empty command="npx paddock run examples/tasks --policy oracle --server http://127.0.0.1:8000">
					No rollout yet. Launch one, or from a terminal:
				</Empty>
			) : (
				<>
					<Course recent={recent} />
					<section>
						<h2>Recent rollouts</h2>
						<RolloutTable rows={recent.slice(0, 12)} />
						<p>
							<Link to="/rollouts">all rollouts</Link>
						</p>
					</section>
				</>
			)}
		</div>
	);
}

function Figure({ label, value, note }: { label: string; value: number; note?: string }) {
	return (
		<div className="card">
			<h2>{label}</h2>
			<div className="figure">{showCount(value)}</div>
			{note !== undefined && <small className="soft">{note}</small>}
		</div>
	);
}

function Course({ recent }: { recent: readonly RolloutRow[] }) {
	const plots = useMemo(() => toPlots(recent), [recent]);
	return (
		<div className="plots">
			<Plot
				title={`Reward of the last ${plots.x.length}`}
				x={plots.x}
				series={plots.rewards}
				range={[0, 1.05]}
			/>
			<Plot title="Seconds and tokens (thousands)" x={plots.x} series={plots.costs} />
		</div>
	);
}

function toPlots(recent: readonly RolloutRow[]) {
	const done = recent
		.filter((row) => row.finishedAt !== null)
		.sort((left, right) => left.finishedAt! - right.finishedAt!);
	const window = 10;
	const mean = done.map((_, index) => {
		const near = done.slice(Math.max(0, index - window + 1), index + 1).flatMap((row) => row.reward ?? []);
		return near.length === 0 ? null : near.reduce((sum, reward) => sum + reward, 0) / near.length;
	});
	return {
		x: done.map((row) => row.finishedAt! / 1000),
		rewards: [
			{ label: "reward", values: done.map((row) => row.reward), dashed: true, points: true },
			{ label: `mean of ${window}`, values: mean },
		],
		costs: [
			{
				label: "seconds",
				values: done.map((row) => (row.finishedAt! - (row.startedAt ?? row.createdAt)) / 1000),
			},
			{ label: "k tokens", values: done.map((row) => (row.promptTokens + row.completionTokens) / 1000) },
		],
	};
}
