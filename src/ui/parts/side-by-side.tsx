import { useMemo } from "react";
import { align } from "../data/align.ts";
import { useRolloutFeed } from "../data/feed.ts";
import { useLoaded } from "../data/loaded.ts";
import { type Entry, readTranscript } from "../data/transcript.ts";
import { Link } from "../router.tsx";
import { answeringOf, server } from "../server.ts";
import { Outcome } from "./outcome.tsx";
import { Reward } from "./reward.tsx";
import { EntryView } from "./transcript.tsx";

interface Side {
	id: string;
	/** Its place in the group, from 1. */
	number: number;
}

/** Two transcripts: what both did stands once, from where they part each has its own side. */
export function SideBySide({ left, right }: { left: Side; right: Side }) {
	const [one, other] = [useEntries(left.id), useEntries(right.id)];
	const rows = useMemo(() => align(one, other), [one, other]);
	const parts = rows.findIndex((row) => !row.isAlike);
	return (
		<div className="side-by-side">
			<SideHead {...left} />
			<SideHead {...right} />
			{rows.map((row, index) => {
				const key = `${row.left?.key} ${row.right?.key}`;
				const cell = (entry: Entry | null, id: string) => (
					<div className={row.isAlike ? "entry" : entry === null ? "entry missing" : "entry differs"}>
						{entry !== null && (
							<EntryView answering={answeringOf(id)} entry={entry} isTarget={false} isNext={false} />
						)}
					</div>
				);
				return (
					<div key={key} className="pair">
						{index === parts && <p className="parting">here they part</p>}
						{cell(row.left, left.id)}
						{cell(row.right, right.id)}
					</div>
				);
			})}
		</div>
	);
}

function useEntries(id: string): Entry[] {
	const { events } = useRolloutFeed(id);
	const { value } = useLoaded(`side-${id}`, () => server.get(id));
	const instruction = value?.request.task.instruction ?? "";
	return useMemo(
		() => readTranscript(instruction, events).filter((entry) => entry.key !== "instruction"),
		[instruction, events],
	);
}

function SideHead({ id, number }: Side) {
	const { value } = useLoaded(`side-head-${id}`, () => server.get(id));
	return (
		<section className="side-head" aria-label={`member ${number}`}>
			<Link to={`/rollouts/${id}`} title={id}>
				member {number}
			</Link>
			{value !== null && <Reward reward={value.reward} />}
			{value !== null && <Outcome rollout={value} />}
		</section>
	);
}
