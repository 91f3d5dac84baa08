import { useCallback, useState } from "react";
import type { Statistics } from "../../../model/statistics.ts";
import { showSeconds } from "../../data/figures.ts";
import { useLoaded } from "../../data/loaded.ts";
import { useAction } from "../../parts/asks.tsx";
import { Brush } from "../../parts/brush.tsx";
import { Empty, Problem } from "../../parts/say.tsx";
import { changeQuery, usePlace } from "../../router.tsx";
import { server } from "../../server.ts";
import { type Filters, filtersOf, keyOf, orderOf } from "./address.ts";
import { Bulk } from "./bulk.tsx";
import { FilterBar } from "./filters.tsx";
import { LongTable } from "./long-table.tsx";
import { PAGE, usePages } from "./pages.ts";

/** Everything that ran, filtered and sorted by the address. */
export function RolloutsPage() {
	const { query } = usePlace();
	const filters = filtersOf(query);
	const order = orderOf(query);
	const key = `${keyOf(filters, query)} ${order}`;
	const newest = useLoaded(`rollouts-${key}`, () => server.list({ ...filters, order, limit: PAGE }), 2500);
	const pages = usePages(key, filters, order, newest.value);
	const distributions = useDistributions(filters);
	const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
	const [isFolded, setFolded] = useState(true);
	const { error, isBusy, act } = useAction();
	const toggle = useCallback(
		(id: string) => setChosen((before) => before.symmetricDifference(new Set([id]))),
		[],
	);
	return (
		<div className="stack fill">
			<header className="page-head">
				<h1>Rollouts</h1>
				<Bulk {...{ rows: pages.rows, chosen, filters, act, isBusy }} onDone={() => setChosen(new Set())} />
			</header>
			<FilterBar
				models={distributions.all?.models ?? []}
				isFolded={isFolded}
				onFold={() => setFolded(!isFolded)}
			/>
			{(distributions.all?.counted ?? 0) > 0 && (
				<div className={isFolded ? "brushes folded" : "brushes"}>
					<Brush
						title="reward"
						bars={distributions.rewards}
						least={filters.min_reward}
						most={filters.max_reward}
						show={(value) => String(Number(value.toFixed(2)))}
						onChoose={(least, most) => changeQuery({ min_reward: text(least), max_reward: text(most) })}
					/>
					<Brush
						title="duration"
						bars={distributions.durations}
						least={filters.min_duration_s}
						most={filters.max_duration_s}
						show={(value) => (value === 0 ? "0" : showSeconds(value).replace(/\.0 s/, " s"))}
						onChoose={(least, most) =>
							changeQuery({ min_duration_s: text(least), max_duration_s: text(most) })
						}
					/>
				</div>
			)}
			<Problem error={newest.error ?? error} onRetry={newest.reload} />
			{pages.fresh > 0 && (
				<button type="button" className="fresh" onClick={pages.takeFresh}>
					{pages.fresh} new
				</button>
			)}
			{pages.rows.length === 0 && newest.value !== null ? (
				<NothingFits isFiltered={query.size > 0} />
			) : (
				<LongTable
					{...{ rows: pages.rows, order, chosen }}
					onOrder={(next) => changeQuery({ order: next === "newest" ? null : next })}
					onToggle={toggle}
					onEnd={pages.isEnd ? undefined : pages.more}
				/>
			)}
		</div>
	);
}

function NothingFits({ isFiltered }: { isFiltered: boolean }) {
	if (isFiltered) return <Empty>No rollout fits. Loosen the filters.</Empty>;
	return (
		<Empty command="npx paddock run examples/tasks --policy oracle --server http://127.0.0.1:8000">
			No rollout yet. Launch one, or from a terminal:
		</Empty>
	);
}

/** Each histogram is of what all other filters let through, so that it can be widened again. */
function useDistributions(filters: Filters) {
	const all = useStatistics({});
	const byReward = useStatistics({ ...filters, min_reward: undefined, max_reward: undefined });
	const byTime = useStatistics({ ...filters, min_duration_s: undefined, max_duration_s: undefined });
	return { all, rewards: byReward?.rewards ?? [], durations: byTime?.durations ?? [] };
}

function useStatistics(
	filters: Parameters<typeof server.statistics>[0] & { since?: number | undefined },
): Statistics | null {
	const { query } = usePlace();
	const ask = () => server.statistics({ ...filters, buckets: 1 });
	return useLoaded(`statistics-${keyOf(filters, query)}`, ask, 10_000).value;
}

function text(value: number | null): string | null {
	return value === null ? null : String(Number(value.toFixed(6)));
}
