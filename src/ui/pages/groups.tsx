import { useState } from "react";
import { modelOf } from "../../model/endpoint.ts";
import type { Group } from "../../model/rollout.ts";
import { oneLine } from "../data/hostile.ts";
import { useLoaded } from "../data/loaded.ts";
import { SIGNS } from "../parts/outcome.tsx";
import { Reward } from "../parts/reward.tsx";
import { Ago, Empty, Problem } from "../parts/say.tsx";
import { Link, usePlace } from "../router.tsx";
import { server } from "../server.ts";

const PAGE = 50;

export function GroupsPage() {
	const { query } = usePlace();
	const batchId = query.get("batch_id") ?? undefined;
	const [pages, setPages] = useState(1);
	const { value, error, reload } = useLoaded(
		`groups-${batchId}-${pages}`,
		() => server.groups({ limit: pages * PAGE, batch_id: batchId }),
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
			<Problem error={error} />
			{value.items.length === 0 ? (
				<Empty command="npx paddock run examples/tasks/fizzbuzz --policy oracle -n 4 --server http://127.0.0.1:8000">
					No group yet. Several rollouts of one task make one:
				</Empty>
			) : (
				<Groups groups={value.items} />
			)}
			{value.next !== null && (
				<div>
					<button type="button" onClick={() => setPages(pages + 1)}>
						Older ones
					</button>
				</div>
			)}
		</div>
	);
}

function Groups({ groups }: { groups: readonly Group[] }) {
	return (
		<div className="scrolling" tabIndex={0} role="region" aria-label="Groups">
			<table className="list groups">
				<thead>
					<tr>
						<th>task</th>
						<th>model</th>
						<th className="number">reward</th>
						<th>members</th>
						<th className="number">done</th>
						<th>batch</th>
						<th>created</th>
					</tr>
				</thead>
				<tbody>
					{groups.map((group) => (
						<tr key={group.id}>
							<td className="one-line">
								<Link to={`/groups/${group.id}`}>{oneLine(group.taskId, 80)}</Link>
							</td>
							<Course id={group.id} n={group.n} />
							<td className="soft one-line">
								{group.batchId !== null && (
									<Link to={`/compare?a=${group.batchId}`} title={group.batchId}>
										{group.batchId.slice(-6)}
									</Link>
								)}
							</td>
							<td className="soft one-line">
								<Ago at={group.createdAt} />
							</td>
						</tr>
					))}
				</tbody>
			</table>
		</div>
	);
}

/** So many signs of members are shown. */
const SHOWN = 16;

/** Who answered, and how it goes: read for each group by itself, and again while it goes on. */
function Course({ id, n }: { id: string; n: number }) {
	const [isOver, setOver] = useState(false);
	const { value } = useLoaded(
		`group-course-${id}`,
		async () => {
			const [group, first] = await Promise.all([server.group(id), server.list({ group_id: id, limit: 1 })]);
			setOver(group.done === group.n);
			return { group, model: first.items[0] === undefined ? "–" : modelOf(first.items[0].endpoint) };
		},
		isOver ? undefined : 5000,
	);
	const members = value?.group.rollouts ?? [];
	return (
		<>
			<td className="soft one-line">{oneLine(value?.model ?? "…", 60)}</td>
			<td className="number">{value !== null && <Reward reward={value.group.rewardMean} />}</td>
			<td className="one-line">
				{members.slice(0, SHOWN).map((member) => (
					<span
						key={member.id}
						title={`${member.outcome ?? member.status}${member.reward === null ? "" : `, ${member.reward.toFixed(2)}`}`}
						style={{ color: `var(--outcome-${member.outcome ?? "aborted"})` }}
					>
						{SIGNS[member.outcome ?? ""] ?? "◌"}{" "}
					</span>
				))}
				{members.length > SHOWN && <span className="soft">…</span>}
			</td>
			<td className="number">
				{value?.group.done ?? "…"} of {n}
			</td>
		</>
	);
}
