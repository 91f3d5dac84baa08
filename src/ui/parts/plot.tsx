import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { showTime } from "../data/figures.ts";

export interface PlotSeries {
	label: string;
	values: (number | null)[];
	dashed?: boolean;
	points?: boolean;
	/** A variable of the theme; one of the palette unless given. */
	colour?: string | undefined;
}

export interface PlotProps {
	title: string;
	/** Seconds since the epoch, or a plain count. */
	x: number[];
	series: PlotSeries[];
	/** Lines; areas on top of each other; bars on top of each other. */
	kind?: "lines" | "stack" | "bars";
	isTime?: boolean;
	heightPx?: number;
	range?: [number, number];
}

const PALETTE = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6"];

/** A plot that fills its place and follows light and dark. */
export function Plot({ title, x, series, kind = "lines", isTime = true, heightPx = 190, range }: PlotProps) {
	const place = useRef<HTMLDivElement>(null);
	useEffect(() => {
		const element = place.current;
		if (element === null || x.length === 0) return;
		const colour = colourOf(element);
		const plot = new uPlot(
			{
				width: element.clientWidth,
				height: heightPx,
				padding: [8, 20, 0, 0],
				cursor: { drag: { x: false, y: false }, points: { size: 6 } },
				legend: { live: true },
				scales: { x: { time: isTime, range: widened(kind) }, y: heightsOf(kind, range) },
				axes: axesOf(colour, isTime),
				series: [isTime ? { value: "{YYYY}-{MM}-{DD} {HH}:{mm}" } : {}, ...drawn(series, kind, colour)],
			},
			[x, ...toStacked(series, kind)] as uPlot.AlignedData,
			element,
		);
		const resize = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: heightPx }));
		resize.observe(element);
		return () => {
			resize.disconnect();
			plot.destroy();
		};
	}, [x, series, kind, isTime, heightPx, range]);
	return (
		<figure className="card">
			<h2>{title}</h2>
			{x.length === 0 ? <p className="soft">nothing yet</p> : <div className="plot" ref={place} />}
		</figure>
	);
}

type Colour = (name: string, alpha?: number) => string;

/** Canvas knows no light-dark(): the browser resolves it on an element. */
function colourOf(element: HTMLElement): Colour {
	return (name, alpha = 1) => {
		const probe = document.createElement("i");
		probe.style.color = `color-mix(in srgb, var(${name}) ${alpha * 100}%, var(--raised))`;
		element.append(probe);
		const value = getComputedStyle(probe).color;
		probe.remove();
		return value;
	};
}

function axesOf(colour: Colour, isTime: boolean): uPlot.Axis[] {
	const axis = {
		stroke: colour("--ink-soft"),
		ticks: { show: false },
		font: "11px system-ui",
	};
	return [
		{
			...{ ...axis, grid: { show: false }, size: 28, space: 64 },
			values: (_plot, splits, _axis, _space, step) =>
				splits.map((at) => (isTime ? showMoment(at, step) : showValue(at))),
		},
		{ ...axis, grid: { stroke: colour("--line"), width: 1 }, size: 46, gap: 4 },
	];
}

/** One moment alone would have no width. Bars need room at both ends. */
function widened(kind: PlotProps["kind"]): uPlot.Range.Function {
	return (_plot, least, most) => {
		const margin = most > least ? (kind === "bars" ? (most - least) * 0.03 : 0) : 30;
		return [least - margin, most + margin];
	};
}

/** What is filled begins at 0: its length is what it says. */
function heightsOf(kind: PlotProps["kind"], range: PlotProps["range"]): uPlot.Scale {
	if (range !== undefined) return { range };
	return kind === "lines" ? {} : { range: (_plot, _least, most) => [0, most > 0 ? most * 1.05 : 1] };
}

/** The topmost is drawn first, so that those below it stay visible. */
function drawn(series: readonly PlotSeries[], kind: PlotProps["kind"], colour: Colour): uPlot.Series[] {
	const all = series.map((each, index): uPlot.Series => {
		const name = each.colour ?? PALETTE[index % PALETTE.length]!;
		const isFilled = kind !== "lines";
		return {
			label: each.label,
			stroke: colour(name),
			width: kind === "bars" ? 0 : 1.5,
			dash: each.dashed ? [4, 4] : [],
			points: { show: kind === "lines" && (each.points ?? false), size: 5, fill: colour(name) },
			spanGaps: true,
			value: (_plot, _value, _series, at) => showValue(at === null ? null : each.values[at]),
			...(isFilled ? { fill: colour(name, kind === "bars" ? 1 : 0.7) } : {}),
			...(kind === "bars" ? { paths: uPlot.paths.bars!({ size: [0.7, 24] }) } : {}),
		};
	});
	return kind === "lines" ? all : all.reverse();
}

function toStacked(series: readonly PlotSeries[], kind: PlotProps["kind"]): (number | null)[][] {
	if (kind === "lines") return series.map((each) => each.values);
	const sums: number[][] = [];
	for (const each of series)
		sums.push(each.values.map((value, index) => (value ?? 0) + (sums.at(-1)?.[index] ?? 0)));
	return sums.reverse();
}

/** `14:05`, `14:05:07` where ticks are that close, `03-09` where a day begins. */
function showMoment(seconds: number, step: number): string {
	const [day = "", time = ""] = showTime(seconds * 1000).split(" ");
	if (step >= 86_400 || time === "00:00:00") return day.slice(5);
	return step >= 60 ? time.slice(0, 5) : time;
}

function showValue(value: number | null | undefined): string {
	if (value === null || value === undefined) return "–";
	if (Number.isInteger(value)) return value.toLocaleString("en");
	return value.toFixed(Math.abs(value) < 10 ? 2 : 0);
}
