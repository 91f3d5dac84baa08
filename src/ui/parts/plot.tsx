import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface PlotProps {
	title: string;
	/** Seconds since the epoch, or a plain count. */
	x: number[];
	series: { label: string; values: (number | null)[]; dashed?: boolean; points?: boolean }[];
	isTime?: boolean;
	heightPx?: number;
	range?: [number, number];
}

const COLOURS = ["--accent", "--warn", "--bad", "--ink-soft"];

/** A line plot that fills its place and follows light and dark. */
export function Plot({ title, x, series, isTime = true, heightPx = 180, range }: PlotProps) {
	const place = useRef<HTMLDivElement>(null);
	useEffect(() => {
		const element = place.current;
		if (element === null || x.length === 0) return;
		const colour = (name: string) => getComputedStyle(element).getPropertyValue(name).trim() || "#888";
		// Canvas knows no light-dark(): the browser resolves it on an element.
		const resolved = (name: string) => {
			const probe = document.createElement("i");
			probe.style.color = `var(${name})`;
			element.append(probe);
			const value = getComputedStyle(probe).color;
			probe.remove();
			return value || colour(name);
		};
		const axis = {
			stroke: resolved("--ink-soft"),
			grid: { stroke: resolved("--line"), width: 1 },
			ticks: { show: false },
			font: "12px system-ui",
		};
		const plot = new uPlot(
			{
				width: element.clientWidth,
				height: heightPx,
				cursor: { drag: { x: false, y: false } },
				scales: { x: { time: isTime }, ...(range ? { y: { range } } : {}) },
				axes: [axis, { ...axis, size: 48 }],
				series: [
					{},
					...series.map((each, index) => ({
						label: each.label,
						stroke: resolved(COLOURS[index % COLOURS.length]!),
						width: 1.5,
						dash: each.dashed ? [4, 4] : [],
						points: { show: each.points ?? false, size: 4 },
						spanGaps: true,
					})),
				],
			},
			[x, ...series.map((each) => each.values)] as uPlot.AlignedData,
			element,
		);
		const resize = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: heightPx }));
		resize.observe(element);
		return () => {
			resize.disconnect();
			plot.destroy();
		};
	}, [x, series, isTime, heightPx, range]);
	return (
		<figure className="card">
			<h2>{title}</h2>
			{x.length === 0 ? <p className="soft">nothing yet</p> : <div className="plot" ref={place} />}
		</figure>
	);
}
