import type { Sample } from "../../model/sample.ts";
import { words } from "../data/branch.ts";
import { showCount } from "../data/figures.ts";

interface BranchTreeProps {
	samples: readonly Sample[];
	chosen: number;
	onChoose: (index: number) => void;
}

/** Every branch on one scale of positions: what was sampled is thick, where it forked is marked. */
export function BranchTree({ samples, chosen, onChoose }: BranchTreeProps) {
	const longest = Math.max(1, ...samples.map((sample) => sample.ids.length));
	const percent = (position: number) => `${(position / longest) * 100}%`;
	return (
		<div className="branches" role="group" aria-label="Branches">
			{samples.map((sample) => {
				const from = sample.startedBy?.position ?? 0;
				return (
					<button
						type="button"
						key={sample.index}
						aria-pressed={sample.index === chosen}
						onClick={() => onChoose(sample.index)}
						title={
							sample.startedBy === null ? "the beginning of its session" : words(sample.startedBy.reason)
						}
					>
						<span className="one-line">
							{sample.startedBy === null ? "" : "↳ "}
							{sample.purpose} {sample.index} · {showCount(sample.ids.length)}
						</span>
						<span className="track">
							<i style={{ left: percent(from), width: percent(sample.ids.length - from) }} />
							{stretchesOf(sample).map(([start, end]) => (
								<i
									key={start}
									className="sampled"
									style={{ left: percent(start), width: percent(end - start) }}
								/>
							))}
							{sample.startedBy !== null && <i className="fork" style={{ left: percent(from) }} />}
						</span>
					</button>
				);
			})}
		</div>
	);
}

function stretchesOf({ mask }: Sample): [number, number][] {
	const stretches: [number, number][] = [];
	for (let at = mask.indexOf(1); at >= 0; ) {
		const end = mask.indexOf(0, at);
		stretches.push([at, end < 0 ? mask.length : end]);
		at = end < 0 ? -1 : mask.indexOf(1, end);
	}
	return stretches;
}
