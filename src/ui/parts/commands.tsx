import type { CommandResult } from "../../model/event.ts";
import { showSeconds } from "../data/figures.ts";
import { makeVisible } from "../data/hostile.ts";
import { Output } from "./output.tsx";

/** Setup or verify commands; those that failed come first and open. */
export function Commands({ results }: { results: readonly CommandResult[] }) {
	const ordered = [...results.entries()].sort(
		([, left], [, right]) => Number(left.exitCode === 0) - Number(right.exitCode === 0),
	);
	return (
		<div className="stack">
			{ordered.map(([index, result]) => (
				<details className="tool" key={index} open={result.exitCode !== 0 || results.length === 1}>
					<summary>
						<span className={result.exitCode === 0 ? "good" : "bad"}>
							{result.exitCode === 0 ? "✓" : "✕"}
						</span>
						<span className="mono one-line">{makeVisible(result.cmd)}</span>
						<span className="soft number">
							exit {result.exitCode} · {showSeconds(result.durationS)}
						</span>
					</summary>
					<div>
						<Output text={result.stdout} label="standard output" />
						<Output text={result.stderr} label="standard error" />
						{result.stdout === "" && result.stderr === "" && <p className="soft">It printed nothing.</p>}
					</div>
				</details>
			))}
		</div>
	);
}
