import type { Statistics } from "../../model/statistics.ts";
import { Link } from "../router.tsx";
import { SIGNS } from "./outcome.tsx";

/** In the order in which people worry. */
export const OUTCOME_COLOURS: Record<string, string> = {
	completed: "--outcome-completed",
	timeout: "--outcome-timeout",
	budget: "--outcome-budget",
	aborted: "--outcome-aborted",
	failed: "--outcome-failed",
};

/** What became of all of them, in one line. */
export function OutcomeBar({ statistics }: { statistics: Statistics }) {
	const counts = Object.keys(OUTCOME_COLOURS).map((name) => ({
		name,
		count: statistics.buckets.reduce((sum, bucket) => sum + (bucket.outcomes[name] ?? 0), 0),
	}));
	const present = counts.filter(({ count }) => count > 0);
	const whole = present.reduce((sum, { count }) => sum + count, 0);
	return (
		<div className="outcome-bar">
			<div className="parts" aria-hidden>
				{present.map(({ name, count }) => (
					<i key={name} style={{ flexGrow: count, background: `var(${OUTCOME_COLOURS[name]})` }} />
				))}
			</div>
			<div className="legend">
				{present.map(({ name, count }) => (
					<Link key={name} to={`/rollouts?outcome=${name}`}>
						<b style={{ color: `var(${OUTCOME_COLOURS[name]})` }}>{SIGNS[name]}</b> {name} {count}{" "}
						<span className="soft">{Math.round((count / whole) * 100)} %</span>
					</Link>
				))}
			</div>
		</div>
	);
}
