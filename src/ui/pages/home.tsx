import { useMemo } from "react";
import type { Statistics } from "../../model/statistics.ts";
import { showCount, showReward, showSeconds } from "../data/figures.ts";
import { useLoaded } from "../data/loaded.ts";
import { Acting } from "../parts/asks.tsx";
import { OUTCOME_COLOURS, OutcomeBar } from "../parts/outcome-bar.tsx";
import { Plot } from "../parts/plot.tsx";
import { RolloutTable } from "../parts/rollout-table.tsx";
import { Empty, Problem } from "../parts/say.tsx";
import { changeQuery, Link, usePlace } from "../router.tsx";
import { server } from "../server.ts";

const HOUR_MS = 3_600_000;
const RANGES: Record<string, { label: string; ms: number | null }> = {
	"1h": { label: "hour", ms: HOUR_MS },
	"24h": { label: "day", ms: 24 * HOUR_MS },
	"7d": { label: "week", ms: 168 * HOUR_MS },
	all: { label: "all", ms: null },
};
const RECENT = 10;
const PHASES = ["queued", "create", "setup", "agent", "verify", "collect"];

/** Is it healthy: totals, throughput, rewards, phases and outcomes over time, what happened last. */
export function HomePage() {
	const { query } = usePlace();
	const name = query.get("range") ?? "all";
	const range = RANGES[name] ?? RANGES.all!;
	const { value, error, reload } = useLoaded(
		`home-${name}`,
		async () => {
			const ended_since = range.ms === null ? undefined : Date.now() - range.ms;
			const [status, workers, recent, statistics] = await Promise.all([
				server.status(),
				server.workers(),
				server.list({ limit: RECENT }),
				server.statistics({ ended_since, buckets: 80 }),
			]);
			return { status, workers: workers.items, recent: recent.items, statistics };
		},
		3000,
	);
	if (value === null)
		return error === null ? <p className="soft">Reading …</p> : <Problem error={error} onRetry={reload} />;
	const { status, workers, recent, statistics } = value;
	const isEmpty = recent.length === 0;
	return (
		<div className="stack">
			<header className="page-head">
				<h1>Home</h1>
				{!isEmpty && <Ranges chosen={name} />}
				<div className="actions">
					<Acting>
						<Link className="button main" to="/launch">
							Launch
						</Link>
					</Acting>
				</div>
			</header>
			<Problem error={error} />
			<Totals {...{ status, statistics, workers: workers.length }} />
			{isEmpty ? (
				<Empty command="npx paddock run examples/tasks --policy oracle --server http://127.0.0.1:8000">
					No rollout yet. Launch one, or from a terminal:
				</Empty>
			) : (
				<>
					<Course statistics={statistics} />
					<section className="stack tight">
						<h2>
							Recent rollouts <Link to="/rollouts">all</Link>
						</h2>
						<RolloutTable rows={recent} />
					</section>
				</>
			)}
		</div>
	);
}

function Ranges({ chosen }: { chosen: string }) {
	return (
		<div className="segments" role="group" aria-label="Time">
			{Object.entries(RANGES).map(([name, { label }]) => (
				<button
					type="button"
					key={name}
					aria-pressed={name === chosen}
					onClick={() => changeQuery({ range: name === "all" ? null : name })}
				>
					{label}
				</button>
			))}
		</div>
	);
}

interface TotalsProps {
	status: Awaited<ReturnType<typeof server.status>>;
	statistics: Statistics;
	workers: number;
}

function Totals({ status, statistics, workers }: TotalsProps) {
	const total = totalsOf(statistics);
	const { running, queued, done } = status.rollouts;
	return (
		<div className="cards">
			<Figure label="running" value={showCount(running)} note={`${queued} queued`} isLive={running > 0} />
			<Figure label="done" value={showCount(done)} note={`${showCount(statistics.counted)} in this time`} />
			<Figure label="mean reward" value={showReward(total.reward)} note={`${total.solvedPercent} % solved`} />
			<Figure label="per minute" value={total.perMinute} note={`${total.tokensPerSecond} tokens/s sampled`} />
			<Figure
				label="mean time"
				value={total.seconds === null ? "–" : showSeconds(total.seconds)}
				note={total.slowest === null ? "" : `mostly ${total.slowest}`}
			/>
			<Figure label="workers" value={String(workers)} note={`${status.capacity} at once`} />
		</div>
	);
}

interface FigureProps {
	label: string;
	value: string;
	note: string;
	isLive?: boolean;
}

function Figure({ label, value, note, isLive = false }: FigureProps) {
	return (
		<div className="card">
			<h2>
				{isLive && (
					<span className="pulse good" aria-hidden>
						●{" "}
					</span>
				)}
				{label}
			</h2>
			<div className="figure">{value}</div>
			<small className="soft">{note}</small>
		</div>
	);
}

function totalsOf({ buckets, bucketMs }: Statistics) {
	const sum = (pick: (bucket: Statistics["buckets"][number]) => number) =>
		buckets.reduce((total, bucket) => total + pick(bucket), 0);
	const rewarded = sum((bucket) => bucket.rewarded);
	const done = sum((bucket) => bucket.done);
	const mean = (pick: (bucket: Statistics["buckets"][number]) => number) =>
		done === 0 ? null : sum((bucket) => pick(bucket) * bucket.done) / done;
	// Time in which nothing ended does not count: this is how fast it goes when it goes.
	const minutes = Math.max(buckets.length * bucketMs, 1) / 60_000;
	const slowest = PHASES.map(
		(phase) => [mean((bucket) => bucket.phasesMeanS[phase] ?? 0) ?? 0, phase] as const,
	)
		.sort((left, right) => right[0] - left[0])
		.at(0);
	return {
		reward: rewarded === 0 ? null : sum((bucket) => (bucket.rewardMean ?? 0) * bucket.rewarded) / rewarded,
		solvedPercent: rewarded === 0 ? 0 : Math.round((sum((bucket) => bucket.solved) / rewarded) * 100),
		perMinute: done === 0 ? "–" : showRate(done / minutes),
		tokensPerSecond: showCount(Math.round(sum((bucket) => bucket.completionTokens) / (minutes * 60))),
		seconds: mean((bucket) => bucket.durationMeanS ?? 0),
		slowest: slowest === undefined || slowest[0] === 0 ? null : slowest[1],
	};
}

function showRate(rate: number): string {
	return rate >= 100 ? showCount(Math.round(rate)) : rate.toFixed(rate < 10 ? 1 : 0);
}

function Course({ statistics }: { statistics: Statistics }) {
	const plots = useMemo(() => toPlots(statistics), [statistics]);
	return (
		<>
			<OutcomeBar statistics={statistics} />
			<div className="plots">
				<Plot title="Reward" x={plots.x} series={plots.rewards} range={[0, 1.02]} />
				<Plot title="Ended, by outcome" x={plots.x} series={plots.outcomes} kind="bars" />
				<Plot title="Seconds in each phase" x={plots.x} series={plots.phases} kind="stack" />
				<Plot title="Tokens" x={plots.x} series={plots.tokens} />
			</div>
		</>
	);
}

function toPlots({ buckets }: Statistics) {
	const outcomes = Object.keys(OUTCOME_COLOURS).filter((name) => buckets.some((each) => each.outcomes[name]));
	const phases = PHASES.filter((phase) => buckets.some((each) => each.phasesMeanS[phase] !== undefined));
	return {
		x: buckets.map((bucket) => bucket.at / 1000),
		rewards: [
			{ label: "mean", values: buckets.map((bucket) => bucket.rewardMean), points: true },
			{
				label: "solved",
				values: buckets.map((bucket) => (bucket.rewarded === 0 ? null : bucket.solved / bucket.rewarded)),
				dashed: true,
			},
		],
		outcomes: outcomes.map((name) => ({
			label: name,
			values: buckets.map((bucket) => bucket.outcomes[name] ?? 0),
			colour: OUTCOME_COLOURS[name],
		})),
		phases: phases.map((phase) => ({
			label: phase,
			values: buckets.map((bucket) => bucket.phasesMeanS[phase] ?? 0),
		})),
		tokens: [
			{
				label: "sampled each",
				values: buckets.map((bucket) => bucket.completionTokens / Math.max(1, bucket.done)),
			},
			{
				label: "prompts each",
				values: buckets.map((bucket) => bucket.promptTokens / Math.max(1, bucket.done)),
				dashed: true,
			},
		],
	};
}
