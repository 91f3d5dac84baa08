import { useEffect, useRef } from "react";
import type { CallSummary } from "../../../model/call.ts";
import { showCall, showCount, showSeconds } from "../../data/figures.ts";
import { makeVisible } from "../../data/hostile.ts";
import type { LogEvent } from "../../data/log-event.ts";
import { changeQuery, usePlace } from "../../router.tsx";

interface Timed extends CallSummary {
	startAt: number;
}

/** Every model call as a waterfall: when it began, until its first byte, while it streamed. `?call=3` marks the third. */
export function CallsTab({ events }: { events: readonly LogEvent[] }) {
	const { query } = usePlace();
	const calls = callsOf(events);
	const chosen = query.get("call");
	const marked = useRef<HTMLTableRowElement>(null);
	// biome-ignore lint/correctness/useExhaustiveDependencies: only another choice scrolls
	useEffect(() => marked.current?.scrollIntoView({ block: "nearest" }), [chosen, calls.length > 0]);
	if (calls.length === 0) return <p className="soft">No call has ended yet.</p>;
	const startAt = Math.min(...calls.map((call) => call.startAt));
	const wholeMs = Math.max(1, ...calls.map((call) => call.startAt + call.latencyMs - startAt));
	return (
		<table className="list calls">
			<thead>
				<tr>
					<th className="number">#</th>
					<th>purpose</th>
					<th>finish</th>
					<th className="number">in + out</th>
					<th className="number">first byte</th>
					<th className="number">time</th>
				</tr>
			</thead>
			<tbody>
				{calls.map((call) => {
					const number = showCall(call.index);
					return (
						<tr
							key={call.index}
							ref={number === chosen ? marked : undefined}
							className={number === chosen ? "chosen" : undefined}
							onClick={() => changeQuery({ call: number })}
						>
							<td className="number">
								{number}
								<Waterfall {...{ call, startAt, wholeMs }} />
							</td>
							<td>{call.purpose}</td>
							<td className={call.error === null ? "" : "bad"}>{finishOf(call)}</td>
							<td className="number">
								{showCount(call.promptTokens)} + {showCount(call.completionTokens)}
							</td>
							<td className="number">
								{typeof call.firstByteMs === "number" ? showSeconds(call.firstByteMs / 1000) : "–"}
							</td>
							<td className="number">{showSeconds(call.latencyMs / 1000)}</td>
						</tr>
					);
				})}
			</tbody>
		</table>
	);
}

function Waterfall({ call, startAt, wholeMs }: { call: Timed; startAt: number; wholeMs: number }) {
	const percent = (ms: number) => `${(ms / wholeMs) * 100}%`;
	const waitedMs = Math.min(call.latencyMs, call.firstByteMs ?? 0);
	return (
		<span className="waterfall" aria-hidden>
			<i className="waits" style={{ left: percent(call.startAt - startAt), width: percent(waitedMs) }} />
			<i
				className={call.error === null ? call.purpose : "is-bad"}
				style={{
					left: percent(call.startAt - startAt + waitedMs),
					width: `max(2px, ${percent(call.latencyMs - waitedMs)})`,
				}}
			/>
		</span>
	);
}

function callsOf(events: readonly LogEvent[]): Timed[] {
	const begun = new Map<number, number>();
	return events.flatMap((event) => {
		if (event.type === "call-start") begun.set(event.index, event.at);
		if (event.type !== "call-end") return [];
		const { call } = event;
		return [{ ...call, startAt: begun.get(call.index) ?? event.at - call.latencyMs }];
	});
}

function finishOf({ error, finishReason }: CallSummary): string {
	if (error !== null) return makeVisible(`${error.code}: ${error.message}`);
	return makeVisible((finishReason ?? "–").replaceAll("_", " "));
}
