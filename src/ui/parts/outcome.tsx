import type { RolloutRow } from "../../model/rollout.ts";

export const SIGNS: Record<string, { sign: string; className: string }> = {
	completed: { sign: "●", className: "good" },
	timeout: { sign: "◐", className: "" },
	aborted: { sign: "○", className: "soft" },
	budget: { sign: "◆", className: "" },
	failed: { sign: "✕", className: "bad" },
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
	const { sign, className } = SIGNS[outcome] ?? { sign: "·", className: "" };
	return (
		<span title={failure === null ? undefined : failure.message}>
			<span className={className}>{sign}</span> {outcome}
			{failure !== null && <span className="soft"> · {failure.code}</span>}
		</span>
	);
}
