import { makeVisible } from "../data/hostile.ts";
import { useLoaded } from "../data/loaded.ts";
import { Credentials } from "../parts/credentials.tsx";
import { Checks, Hosts } from "../parts/hosts.tsx";
import { KeptAgents } from "../parts/kept-agents.tsx";
import { Ago, Problem } from "../parts/say.tsx";
import { server } from "../server.ts";

/** Workers, endpoints and sandboxes, as `paddock doctor` sees them. */
export function MachinePage() {
	const { value, error, reload } = useLoaded(
		"machine",
		async () => {
			const [status, workers, endpoints] = await Promise.all([
				server.status(),
				server.workers(),
				server.endpoints(),
			]);
			return { status, workers: workers.items, endpoints: endpoints.items };
		},
		4000,
	);
	const sandboxes = useLoaded("sandboxes", () => server.sandboxes());
	if (value === null) return <Problem error={error} onRetry={reload} />;
	return (
		<div className="stack">
			<header className="page-head">
				<h1>Machine</h1>
				<span className="soft">version {value.status.version}</span>
			</header>
			<Problem error={error} />
			<section className="stack tight">
				<h2>Workers</h2>
				{value.workers.length > 0 && (
					<div className="scrolling" tabIndex={0}>
						<table className="list">
							<thead>
								<tr>
									<th>worker</th>
									<th className="number">running</th>
									<th className="number">at most</th>
									<th className="number">conversations</th>
									<th className="number">at most</th>
									<th>state</th>
									<th>seen</th>
								</tr>
							</thead>
							<tbody>
								{value.workers.map((worker) => (
									<tr key={worker.id}>
										<td>{worker.id}</td>
										<td className="number">{worker.running}</td>
										<td className="number">{worker.capacity}</td>
										<td className="number">{worker.conversations}</td>
										<td className="number">{worker.maxConversations}</td>
										<td>{worker.draining ? "draining" : "working"}</td>
										<td className="soft">
											<Ago at={worker.seenAt} />
										</td>
									</tr>
								))}
							</tbody>
						</table>
					</div>
				)}
				{value.workers.length === 0 && (
					<p className="soft">No worker has announced itself: what is queued waits.</p>
				)}
			</section>
			<section className="stack tight">
				<h2>Endpoints</h2>
				<div className="scrolling" tabIndex={0}>
					<table className="list">
						<thead>
							<tr>
								<th>name</th>
								<th>model</th>
								<th>address</th>
								<th>state</th>
							</tr>
						</thead>
						<tbody>
							{value.endpoints.map((endpoint) => (
								<tr key={endpoint.name}>
									<td>{endpoint.name}</td>
									<td className="one-line">{endpoint.model ?? "–"}</td>
									<td className="one-line soft">
										{endpoint.baseUrl ?? (endpoint.configured ? "built in" : "not set")}
									</td>
									<td>
										{endpoint.configured ? (
											<span className="tag good">ready</span>
										) : (
											<span className="soft">{makeVisible(endpoint.note)}</span>
										)}
									</td>
								</tr>
							))}
						</tbody>
					</table>
				</div>
			</section>
			<Credentials />
			<KeptAgents />
			<Hosts />
			<section className="stack tight">
				<h2>Sandboxes</h2>
				<Problem error={sandboxes.error} onRetry={sandboxes.reload} />
				{sandboxes.value === null && sandboxes.error === null && (
					<p className="soft">Trying each of them …</p>
				)}
				{Object.entries(sandboxes.value ?? {}).map(([name, { ok, checks }]) => (
					<details className="fold card" key={name}>
						<summary>
							<span className={ok ? "good" : "soft"}>{ok ? "✓" : "○"}</span> {name}
						</summary>
						<Checks checks={checks} />
					</details>
				))}
			</section>
		</div>
	);
}
