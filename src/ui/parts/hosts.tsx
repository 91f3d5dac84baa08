import { useState } from "react";
import type { HostCheck } from "../../model/host.ts";
import { makeVisible, oneLine } from "../data/hostile.ts";
import { useLoaded } from "../data/loaded.ts";
import { server } from "../server.ts";
import { Acting, useAction } from "./asks.tsx";
import { Problem } from "./say.tsx";

/** Other machines that boxes can be placed on, with a look at each when it is asked for. */
export function Hosts() {
	const { value, error } = useLoaded("hosts", () => server.hosts());
	const items = value?.items ?? [];
	return (
		<section className="stack tight">
			<h2>Hosts</h2>
			<Problem error={error} />
			{value !== null && items.length === 0 && (
				<p className="soft">
					No other machine is named. <code>paddock host add</code> places boxes on one by ssh.
				</p>
			)}
			{items.map((host) => (
				<HostCard
					key={host.name}
					name={host.name}
					address={host.address}
					agent={host.agent?.version ?? null}
				/>
			))}
		</section>
	);
}

function HostCard({ name, address, agent }: { name: string; address: string; agent: string | null }) {
	const [found, setFound] = useState<HostCheck | null>(null);
	const { act, isBusy, error } = useAction();
	return (
		<div className="card stack tight">
			<div className="row">
				<b>{name}</b> <span className="soft">{oneLine(address)}</span>
				{agent !== null && <span className="tag">agent {oneLine(agent, 20)}</span>}
				{found !== null && (
					<span className={found.ok ? "tag good" : "tag bad"}>{found.ok ? "ready" : "not ready"}</span>
				)}
				<Acting>
					<button
						type="button"
						disabled={isBusy}
						onClick={() => act(async () => setFound(await server.checkHost(name)))}
					>
						{isBusy ? "Looking …" : "Check"}
					</button>
				</Acting>
			</div>
			<Problem error={error} />
			{found !== null && <Checks checks={found.checks} />}
		</div>
	);
}

/** What was looked at, what was found, and what to do about it. */
export function Checks({ checks }: { checks: HostCheck["checks"] }) {
	return (
		<ul className="checks">
			{checks.map((check) => (
				<li key={check.name}>
					<span className={check.ok ? "good" : "bad"}>{check.ok ? "✓" : "✕"}</span> {check.name}:{" "}
					{makeVisible(check.detail)}
					{check.fix !== undefined && <span className="soft"> → {makeVisible(check.fix)}</span>}
				</li>
			))}
		</ul>
	);
}
