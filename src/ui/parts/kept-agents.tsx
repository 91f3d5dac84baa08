import { modelOf } from "../../model/endpoint.ts";
import type { KeptAgent } from "../../model/kept-agent.ts";
import { showCount } from "../data/figures.ts";
import { oneLine } from "../data/hostile.ts";
import { useLoaded } from "../data/loaded.ts";
import { server } from "../server.ts";
import { Acting, useAction } from "./asks.tsx";
import { Problem } from "./say.tsx";

/** Agents that are kept on a machine, outside any box: what they spend, whether they run. */
export function KeptAgents() {
	const { value, error, reload } = useLoaded("agents", () => server.agents(), 5000);
	const { act, isBusy, error: actError } = useAction();
	const items = value?.items ?? [];
	if (items.length === 0) return <Problem error={error} />;
	const turn = (agent: KeptAgent) =>
		act(async () => {
			await (agent.baseUrl === null ? server.startAgent(agent.name) : server.stopAgent(agent.name));
			reload();
		});
	return (
		<section className="stack tight">
			<h2>Kept agents</h2>
			<Problem error={error ?? actError} />
			<div className="scrolling" tabIndex={0} role="region" aria-label="Kept agents">
				<table className="list">
					<thead>
						<tr>
							<th>name</th>
							<th>model</th>
							<th>state</th>
							<th className="number">calls</th>
							<th className="number">tokens in + out</th>
							<th>
								<span className="unseen">actions</span>
							</th>
						</tr>
					</thead>
					<tbody>
						{items.map((agent) => (
							<tr key={agent.id}>
								<td>{agent.name}</td>
								<td className="one-line soft">{oneLine(modelOf(agent.endpoint))}</td>
								<td>{stateOf(agent)}</td>
								<td className="number">{agent.spent.calls}</td>
								<td className="number">
									{showCount(agent.spent.promptTokens)} + {showCount(agent.spent.completionTokens)}
								</td>
								<td className="number">
									<Acting>
										<button type="button" className="plain" disabled={isBusy} onClick={() => turn(agent)}>
											{agent.baseUrl === null ? "start" : "stop"}
										</button>
									</Acting>
								</td>
							</tr>
						))}
					</tbody>
				</table>
			</div>
		</section>
	);
}

function stateOf({ baseUrl, revokedAt, needsRestart }: KeptAgent) {
	if (revokedAt !== null) return <span className="tag bad">revoked</span>;
	if (baseUrl === null) return <span className="tag">stopped</span>;
	return <span className="tag good">{needsRestart ? "runs, changed since" : "runs"}</span>;
}
