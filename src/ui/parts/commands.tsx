import type { CommandResult } from "../../model/event.ts";
import { showSeconds } from "../data/figures.ts";
import { makeVisible } from "../data/hostile.ts";
import type { RunningCommand } from "../data/story.ts";
import { Output } from "./output.tsx";
import { useNow } from "./say.tsx";

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
						<span className="command">
							<code>{makeVisible(result.cmd)}</code>
							<small className="soft">
								exit {result.exitCode} · {showSeconds(result.durationS)}
							</small>
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

/** The one that runs now. */
export function Running({ command }: { command: RunningCommand }) {
	const now = useNow(500);
	return (
		<div className="tool">
			<div className="line">
				<span className="pulse" aria-hidden>
					◌
				</span>
				<span className="command">
					<code>{makeVisible(command.cmd)}</code>
					<small className="soft">
						{command.kind} {command.step} of {command.of} ·{" "}
						{showSeconds(Math.max(0, now - command.startAt) / 1000)}
					</small>
				</span>
			</div>
		</div>
	);
}
