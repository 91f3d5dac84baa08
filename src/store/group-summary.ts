import type { Group } from "../model/rollout.ts";
import type { GroupSummary } from "./store.ts";

export function summarize(group: Group, rollouts: GroupSummary["rollouts"]): GroupSummary {
	const rewards = rollouts.flatMap((rollout) => (rollout.reward === null ? [] : [rollout.reward]));
	const mean = rewards.length === 0 ? null : sum(rewards) / rewards.length;
	const spread =
		mean === null ? null : Math.sqrt(sum(rewards.map((reward) => (reward - mean) ** 2)) / rewards.length);
	const withStatus = (status: string) => rollouts.filter((rollout) => rollout.status === status).length;
	return {
		...group,
		done: withStatus("done"),
		running: withStatus("running"),
		queued: withStatus("queued"),
		rewardMean: mean,
		rewardStd: spread,
		passAt: passAt(rollouts),
		rollouts,
	};
}

/**
 * The unbiased estimator: of n tries with c passes, 1 − C(n−c, k) / C(n, k). A try that ran out of time or budget
 * counts as not passed; one that broke or was aborted says nothing about the model and is no try.
 */
export function passAt(rollouts: GroupSummary["rollouts"]): Record<string, number> {
	if (rollouts.every((rollout) => rollout.reward === null)) return {};
	const tries = rollouts.filter(isTry);
	const passes = tries.filter((rollout) => rollout.reward === 1).length;
	const result: Record<string, number> = {};
	for (let k = 1; k <= tries.length; k *= 2) {
		let allFail = 1;
		for (let i = 0; i < k; i++) allFail *= Math.max(0, tries.length - passes - i) / (tries.length - i);
		result[k] = 1 - allFail;
	}
	return result;
}

function isTry(rollout: GroupSummary["rollouts"][number]): boolean {
	if (rollout.status !== "done") return false;
	return rollout.reward !== null || (rollout.outcome !== "failed" && rollout.outcome !== "aborted");
}

function sum(numbers: number[]): number {
	return numbers.reduce((total, number) => total + number, 0);
}
