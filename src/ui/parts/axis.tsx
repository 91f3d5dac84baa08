import { showSeconds } from "../data/figures.ts";
import { oneLine } from "../data/hostile.ts";
import type { Span, Story } from "../data/story.ts";
import { useNow } from "./say.tsx";

const LANES: { lane: Span["lane"]; label: string }[] = [
	{ lane: "phase", label: "phases" },
	{ lane: "command", label: "commands" },
	{ lane: "call", label: "calls" },
	{ lane: "tool", label: "tools" },
];

/** One time axis for everything: phases, commands, model calls, tool runs. */
export function Axis({ story, onChoose }: { story: Story; onChoose?: (span: Span) => void }) {
	const now = useNow(story.endAt === null ? 500 : 60_000);
	const startAt = story.startAt ?? story.spans[0]?.startAt;
	if (startAt === undefined) return <p className="soft">It waits for a worker.</p>;
	const endAt = story.endAt ?? now;
	const whole = Math.max(1, endAt - startAt);
	const percent = (at: number) => Math.min(100, Math.max(0, ((at - startAt) / whole) * 100));
	return (
		<div className="axis" role="group" aria-label="Time axis">
			{LANES.map(({ lane, label }) => {
				const spans = story.spans.filter((span) => span.lane === lane);
				if (spans.length === 0) return null;
				return (
					<div className="lane" key={lane}>
						<span>{label}</span>
						{spans.map((span) => {
							const seconds = ((span.endAt ?? endAt) - span.startAt) / 1000;
							const name = `${oneLine(span.label, 120)}, ${showSeconds(seconds)}`;
							return (
								<button
									type="button"
									key={`${span.key}-${span.startAt}`}
									className={`span ${span.kind} ${span.isBad ? "is-bad" : ""} ${span.endAt === null ? "live" : ""}`}
									style={{
										left: `${percent(span.startAt)}%`,
										width: `${Math.max(0.3, percent(span.endAt ?? endAt) - percent(span.startAt))}%`,
									}}
									title={name}
									aria-label={name}
									onClick={() => onChoose?.(span)}
								>
									{lane === "phase" && <span>{span.label}</span>}
								</button>
							);
						})}
					</div>
				);
			})}
		</div>
	);
}
