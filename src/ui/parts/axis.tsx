import { type Ref, useImperativeHandle, useMemo, useRef } from "react";
import { showSeconds } from "../data/figures.ts";
import { oneLine } from "../data/hostile.ts";
import { inRows, ticksOf } from "../data/scale.ts";
import type { Span, Story } from "../data/story.ts";
import { useNow } from "./say.tsx";

const LANES: { lane: Span["lane"]; label: string }[] = [
	{ lane: "phase", label: "phases" },
	{ lane: "command", label: "commands" },
	{ lane: "call", label: "calls" },
	{ lane: "tool", label: "tools" },
];

/** Moves the mark to a moment, without anything being drawn anew. */
export interface AxisMark {
	moveTo(at: number): void;
}

interface AxisProps {
	story: Story;
	onChoose: (span: Span) => void;
	mark: Ref<AxisMark>;
}

/** One time axis for everything: phases, commands, model calls (until their first byte, then streaming), tool runs. */
export function Axis({ story, onChoose, mark }: AxisProps) {
	const now = useNow(story.endAt === null ? 500 : 60_000);
	const line = useRef<HTMLElement>(null);
	const lanes = useMemo(() => lanesOf(story.spans), [story.spans]);
	const startAt = story.startAt ?? story.spans[0]?.startAt;
	const endAt = story.endAt ?? now;
	const whole = Math.max(1, endAt - (startAt ?? endAt));
	const percent = (at: number) => Math.min(100, Math.max(0, ((at - (startAt ?? at)) / whole) * 100));
	useImperativeHandle(mark, () => ({
		moveTo: (at) => line.current?.style.setProperty("left", `${percent(at)}%`),
	}));
	if (startAt === undefined) return <p className="soft">It waits for a worker.</p>;
	return (
		<div className="axis" role="group" aria-label="Time axis">
			<div className="ticks" aria-hidden>
				{ticksOf(whole / 1000).map((seconds) => (
					<i key={seconds} style={{ left: `${(seconds * 100_000) / whole}%` }}>
						{seconds === 0 ? "0" : showSeconds(seconds).replace(/\.0 s/, " s")}
					</i>
				))}
				<i className="mark" ref={line} />
			</div>
			{lanes.map(({ lane, label, rows }) =>
				rows.map((spans, row) => (
					<div className="lane" key={`${lane}-${spans[0]!.key}`}>
						{row === 0 && <span>{label}</span>}
						{spans.map((span) => (
							<Bar key={`${span.key}-${span.startAt}`} {...{ span, endAt, percent, onChoose }} />
						))}
					</div>
				)),
			)}
		</div>
	);
}

function lanesOf(spans: readonly Span[]) {
	return LANES.map(({ lane, label }) => ({
		...{ lane, label },
		rows: inRows(spans.filter((span) => span.lane === lane)),
	}));
}

interface BarProps {
	span: Span;
	endAt: number;
	percent: (at: number) => number;
	onChoose: (span: Span) => void;
}

function Bar({ span, endAt, percent, onChoose }: BarProps) {
	const [from, to] = [span.startAt, span.endAt ?? endAt];
	const seconds = showSeconds(Math.max(0, to - from) / 1000);
	const waited = span.firstByteAt === undefined ? null : span.firstByteAt - from;
	const name = `${oneLine(span.label, 120)}, ${seconds}${waited === null ? "" : `, first byte after ${showSeconds(waited / 1000)}`}`;
	const state = `${span.isBad ? "is-bad" : ""} ${span.endAt === null ? "live" : ""}`;
	return (
		<button
			type="button"
			className={`span of-${span.lane} ${span.kind} ${state}`}
			style={{
				left: `${percent(from)}%`,
				width: `max(3px, calc(${percent(to) - percent(from)}% - 1px))`,
			}}
			title={name}
			aria-label={name}
			onClick={() => onChoose(span)}
		>
			{waited !== null && (
				<i style={{ width: `${Math.min(100, (waited / Math.max(1, to - from)) * 100)}%` }} />
			)}
			{span.lane === "phase" && (
				<span>
					{span.label} <small>{seconds}</small>
				</span>
			)}
		</button>
	);
}
