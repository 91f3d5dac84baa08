import { oneLine } from "../data/hostile.ts";
import { useLoaded } from "../data/loaded.ts";
import { Ago, Empty, Problem } from "../parts/say.tsx";
import { Link, usePlace } from "../router.tsx";
import { server } from "../server.ts";

export function GroupsPage() {
	const { query } = usePlace();
	const batchId = query.get("batch_id") ?? undefined;
	const { value, error, reload } = useLoaded(
		`groups-${batchId}`,
		async () => {
			const [groups, batches] = await Promise.all([
				server.groups({ limit: 100, batch_id: batchId }),
				server.batches({ limit: 50 }),
			]);
			return { groups: groups.items, batches: batches.items };
		},
		5000,
	);
	if (value === null) return <Problem error={error} onRetry={reload} />;
	return (
		<div className="stack">
			<header className="page-head">
				<h1>Groups</h1>
				<div className="actions">
					<Link className="button" to="/compare">
						Compare models
					</Link>
				</div>
			</header>
			{value.groups.length === 0 ? (
				<Empty command="npx paddock run examples/tasks/fizzbuzz --policy oracle -n 4 --server http://127.0.0.1:8000">
					No group yet. Several rollouts of one task make one:
				</Empty>
			) : (
				<div className="scrolling" tabIndex={0}>
					<table className="list">
						<thead>
							<tr>
								<th>task</th>
								<th className="number">rollouts</th>
								<th>batch</th>
								<th>created</th>
							</tr>
						</thead>
						<tbody>
							{value.groups.map((group) => (
								<tr key={group.id}>
									<td>
										<Link to={`/groups/${group.id}`}>{oneLine(group.taskId, 80)}</Link>
									</td>
									<td className="number">{group.n}</td>
									<td className="soft">
										{group.batchId !== null && (
											<Link to={`/compare?a=${group.batchId}`}>{group.batchId}</Link>
										)}
									</td>
									<td className="soft">
										<Ago at={group.createdAt} />
									</td>
								</tr>
							))}
						</tbody>
					</table>
				</div>
			)}
		</div>
	);
}
