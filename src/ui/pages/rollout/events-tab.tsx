import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef } from "react";
import { showSeconds } from "../../data/figures.ts";
import { oneLine } from "../../data/hostile.ts";
import type { LogEvent } from "../../data/log-event.ts";

/** The log itself: everything else on this page is derived from it. */
export function EventsTab({ events }: { events: readonly LogEvent[] }) {
	const scroller = useRef<HTMLDivElement>(null);
	const rows = useVirtualizer({
		count: events.length,
		getScrollElement: () => scroller.current,
		estimateSize: () => 24,
		overscan: 20,
	});
	const startAt = events[0]?.at ?? 0;
	return (
		<div
			className="scrolling"
			ref={scroller}
			style={{ height: "60vh" }}
			role="region"
			aria-label="Events"
			tabIndex={0}
		>
			<div style={{ height: rows.getTotalSize(), position: "relative" }}>
				{rows.getVirtualItems().map((row) => {
					const { seq, at, type, ...rest } = events[row.index]!;
					return (
						<div
							key={seq}
							className="one-line mono"
							style={{
								position: "absolute",
								left: 8,
								right: 8,
								height: 24,
								transform: `translateY(${row.start}px)`,
							}}
						>
							<span className="soft">
								{seq} +{showSeconds((at - startAt) / 1000)}
							</span>{" "}
							{type} <span className="soft">{oneLine(JSON.stringify(rest, withoutId), 200)}</span>
						</div>
					);
				})}
			</div>
		</div>
	);
}

/** Whose log it is stands at the top of the page. */
function withoutId(name: string, value: unknown): unknown {
	return name === "rolloutId" || name === "conversationId" ? undefined : value;
}
