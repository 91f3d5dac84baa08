import type { Rollout } from "../model/rollout.ts";
import type { GroupSummary, Store } from "../store/store.ts";

/** Groups whose figures are kept at once: rollouts come by creation, so a group's members come close together. */
const REMEMBERED = 64;

/** (reward − mean) / std of the group; 0 when all rewards are alike; null without a group or without a reward. */
export function advantageOf(
	reward: number | null,
	group: Pick<GroupSummary, "rewardMean" | "rewardStd"> | null,
): number | null {
	if (reward === null || group === null || group.rewardMean === null) return null;
	return group.rewardStd ? (reward - group.rewardMean) / group.rewardStd : 0;
}

/** Looks each group up once, not once for each of its rollouts. */
export class Advantages {
	readonly #store: Pick<Store, "group">;
	readonly #groups = new Map<string, Pick<GroupSummary, "rewardMean" | "rewardStd"> | null>();

	constructor(store: Pick<Store, "group">) {
		this.#store = store;
	}

	async of(rollout: Rollout): Promise<number | null> {
		if (rollout.groupId === null || rollout.reward === null) return null;
		const known = this.#groups.get(rollout.groupId);
		const group = known === undefined ? await this.#store.group(rollout.groupId) : known;
		this.#groups.delete(rollout.groupId);
		this.#groups.set(rollout.groupId, group && { rewardMean: group.rewardMean, rewardStd: group.rewardStd });
		if (this.#groups.size > REMEMBERED) this.#groups.delete(this.#groups.keys().next().value!);
		return advantageOf(rollout.reward, group);
	}
}
