import { type KeyboardEvent, type PointerEvent, useRef, useState } from "react";

export interface BrushBar {
	from: number;
	/** Null when it has no end. */
	to: number | null;
	count: number;
}

interface BrushProps {
	title: string;
	bars: readonly BrushBar[];
	least: number | undefined;
	most: number | undefined;
	show: (value: number) => string;
	onChoose: (least: number | null, most: number | null) => void;
}

/** A histogram that is the filter itself: drag over bars, or choose them by keys; once more takes it off. */
export function Brush({ title, bars, least, most, show, onChoose }: BrushProps) {
	const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
	const place = useRef<HTMLDivElement>(null);
	const highest = Math.max(1, ...bars.map((bar) => bar.count));
	const isChosen = least !== undefined || most !== undefined;
	const within = (bar: BrushBar) =>
		(least === undefined || bar.from >= least || (bar.to ?? Infinity) > least) &&
		(most === undefined || bar.from < most || bar.from === least);

	const choose = (first: number, last: number) => {
		const [from, to] = [bars[Math.min(first, last)], bars[Math.max(first, last)]];
		if (from === undefined || to === undefined) return;
		const isSame = least === from.from && (most ?? null) === to.to;
		onChoose(isSame ? null : from.from, isSame ? null : to.to);
	};
	const barAt = (event: PointerEvent) => {
		const box = place.current!.getBoundingClientRect();
		const share = (event.clientX - box.left) / Math.max(1, box.width);
		return Math.min(bars.length - 1, Math.max(0, Math.floor(share * bars.length)));
	};
	const onKeyDown = (event: KeyboardEvent, index: number) => {
		const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
		if (step !== 0) (place.current?.children[index + step] as HTMLElement | undefined)?.focus();
		else if (event.key === "Enter" || event.key === " ") {
			event.preventDefault();
			choose(index, index);
		}
	};
	return (
		<figure className="brush">
			<figcaption>
				<span>{title}</span>
				{isChosen && (
					<span className="soft">
						{least === undefined ? "" : show(least)} – {most === undefined ? "" : show(most)}
					</span>
				)}
			</figcaption>
			<div
				ref={place}
				className="bars"
				role="group"
				aria-label={`${title}: drag to filter`}
				onPointerDown={(event) => {
					if (event.button !== 0) return;
					event.currentTarget.setPointerCapture(event.pointerId);
					setDrag({ from: barAt(event), to: barAt(event) });
				}}
				onPointerMove={(event) => drag && setDrag({ ...drag, to: barAt(event) })}
				onPointerUp={() => {
					if (drag) choose(drag.from, drag.to);
					setDrag(null);
				}}
				onPointerCancel={() => setDrag(null)}
			>
				{bars.map((bar, index) => {
					const isDragged =
						drag !== null && index >= Math.min(drag.from, drag.to) && index <= Math.max(drag.from, drag.to);
					const isOn = drag === null ? !isChosen || within(bar) : isDragged;
					const name = `${show(bar.from)} to ${bar.to === null ? "more" : show(bar.to)}: ${bar.count}`;
					return (
						<button
							type="button"
							key={bar.from}
							className={isOn ? "bar" : "bar off"}
							aria-pressed={isChosen && within(bar)}
							aria-label={name}
							title={name}
							tabIndex={index === 0 ? 0 : -1}
							onKeyDown={(event) => onKeyDown(event, index)}
						>
							<i style={{ height: bar.count === 0 ? 0 : `${Math.max(4, (bar.count / highest) * 100)}%` }} />
						</button>
					);
				})}
			</div>
			<div className="ends soft" aria-hidden>
				{labelsOf(bars, show).map(({ at, text }) => (
					<span key={at} style={at < 1 ? { left: `${at * 100}%` } : { right: 0 }}>
						{text}
					</span>
				))}
			</div>
		</figure>
	);
}

const LABELS = 4;

/** Where some of the bars begin, and where the last one ends. */
function labelsOf(
	bars: readonly BrushBar[],
	show: (value: number) => string,
): { at: number; text: string }[] {
	const last = bars.at(-1);
	if (last === undefined) return [];
	const step = Math.max(1, Math.round(bars.length / LABELS));
	const begins = bars
		.map((bar, index) => ({ at: index / bars.length, text: show(bar.from), index }))
		.filter(({ index }) => index % step === 0 && index <= bars.length - step);
	return [...begins, { at: 1, text: last.to === null ? `${show(last.from)} +` : show(last.to) }];
}
