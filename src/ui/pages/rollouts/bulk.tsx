import { useState } from "react";
import type { RolloutRow } from "../../../model/rollout.ts";
import { saveAs } from "../../data/save.ts";
import { Acting, type useAction } from "../../parts/asks.tsx";
import { server } from "../../server.ts";
import type { Filters } from "./address.ts";

const FORMATS = ["jsonl", "parquet", "trl", "atif", "messages", "openenv"] as const;
/** So many fit into an address; whoever wants more filters. */
const NAMED = 200;

interface BulkProps extends Pick<ReturnType<typeof useAction>, "act" | "isBusy"> {
	rows: readonly RolloutRow[];
	chosen: ReadonlySet<string>;
	filters: Filters;
	onDone: () => void;
}

/** What can be done to the chosen ones, or to all that match. */
export function Bulk({ rows, chosen, filters, act, isBusy, onDone }: BulkProps) {
	const [format, setFormat] = useState<(typeof FORMATS)[number]>("jsonl");
	const some = rows.filter((row) => chosen.has(row.id));
	const unfinished = (some.length > 0 ? some : rows).filter((row) => row.status !== "done");
	const abort = () => {
		if (!confirm(`Abort ${unfinished.length} unfinished rollouts?`)) return;
		void act(async () => {
			await Promise.all(unfinished.map((row) => server.abort(row.id)));
			onDone();
		});
	};
	const save = () =>
		act(async () => {
			const what = some.length > 0 ? { ids: some.map((row) => row.id).join(",") } : filters;
			const name = `rollouts.${format === "parquet" ? "parquet" : `${format}.jsonl`}`;
			await saveAs(name, await server.export({ ...what, format }));
		});
	return (
		<div className="actions">
			{some.length > 0 && <span className="soft">{some.length} chosen</span>}
			{unfinished.length > 0 && (
				<Acting>
					<button type="button" className="danger" disabled={isBusy} onClick={abort}>
						Abort {unfinished.length}
					</button>
				</Acting>
			)}
			<select
				aria-label="format"
				className="small"
				value={format}
				onChange={(event) => setFormat(event.target.value as typeof format)}
			>
				{FORMATS.map((name) => (
					<option key={name}>{name}</option>
				))}
			</select>
			<button
				type="button"
				disabled={isBusy || rows.length === 0 || some.length > NAMED}
				title={some.length > NAMED ? `at most ${NAMED} by choice; use the filters for more` : undefined}
				onClick={save}
			>
				Export {some.length > 0 ? some.length : "all that match"}
			</button>
		</div>
	);
}
