import { showCount, showSeconds } from "../../data/figures.ts";
import { makeVisible } from "../../data/hostile.ts";
import type { LogEvent } from "../../data/log-event.ts";

/** Every model call, in the order in which they ended. */
export function CallsTab({ events }: { events: readonly LogEvent[] }) {
	const calls = events.flatMap((event) => (event.type === "call-end" ? [event.call] : []));
	if (calls.length === 0) return <p className="soft">No call has ended yet.</p>;
	const slowest = Math.max(...calls.map((call) => call.latencyMs), 1);
	return (
		<table className="list">
			<thead>
				<tr>
					<th className="number">#</th>
					<th>purpose</th>
					<th>finish</th>
					<th className="number">tokens</th>
					<th>time</th>
				</tr>
			</thead>
			<tbody>
				{calls.map((call) => (
					<tr key={call.index}>
						<td className="number">{call.index}</td>
						<td>{call.purpose}</td>
						<td className={call.error === null ? "" : "bad"}>
							{call.error === null
								? (call.finishReason ?? "–")
								: makeVisible(`${call.error.code}: ${call.error.message}`)}
						</td>
						<td className="number">
							{showCount(call.promptTokens)} + {showCount(call.completionTokens)}
						</td>
						<td>
							<meter min={0} max={slowest} value={call.latencyMs} aria-label={`call ${call.index}`} />{" "}
							{showSeconds(call.latencyMs / 1000)}
						</td>
					</tr>
				))}
			</tbody>
		</table>
	);
}
