import type { RolloutRow } from "../../model/rollout.ts";

export const SIGNS: Record<string, string> = {
	completed: "●",
	timeout: "◐",
	aborted: "○",
	budget: "◆",
	failed: "✕",
};

type Ended = Pick<RolloutRow, "status" | "phase" | "outcome" | "failure">;

/** By shape and by word; a running one says where it is. */
export function Outcome({ rollout }: { rollout: Ended }) {
	const { outcome, status, phase, failure } = rollout;
	if (outcome === null)
		return (
			<span className={status === "running" ? undefined : "soft"}>
				<span className={status === "running" ? "pulse" : undefined} aria-hidden>
					◌
				</span>{" "}
				{status === "running" ? phase : status}
			</span>
		);
	return (
		<span title={failure === null ? undefined : failure.message}>
			<span style={{ color: `var(--outcome-${outcome})` }}>{SIGNS[outcome] ?? "·"}</span> {outcome}
			{failure !== null && <span className="soft"> · {failure.code}</span>}
		</span>
	);
}
