import { groupFigures } from "../export/group-figures.ts";
import { kindOf } from "../model/id.ts";
import type { Batch } from "../model/rollout.ts";
import type { Queue } from "../queue/queue.ts";
import type { GroupSummary, Store } from "../store/store.ts";
import { isStorable, requireStorable } from "./storable-text.ts";
import type { BatchSummary, Reading } from "./verbs.ts";

/** What is known of rollouts, groups and batches. An id that no store could hold is an unknown one. */
export function reading(store: Store, queue: Queue, queueLimit: number): Reading {
	return {
		rollout: async (id) => (isRollout(id) ? await store.get(id) : null),
		row: async (id) => (isRollout(id) ? await store.row(id) : null),
		async list(filter, page) {
			requireStorable(filter, "filter");
			return await store.list({ ...filter, kind: "rollout" }, page);
		},
		async statistics(filter, options) {
			requireStorable(filter, "filter");
			return await store.statistics(filter, options);
		},
		group: async (id) => (isStorable(id) ? await store.group(id) : null),
		async groupFigures(id) {
			const group = isStorable(id) ? await store.group(id) : null;
			return group && (await groupFigures(store, group));
		},
		async listGroups(options) {
			requireStorable(options, "filter");
			return await store.listGroups(options);
		},
		async batch(id) {
			const batch = isStorable(id) ? await store.batch(id) : null;
			return batch && (await summarize(store, batch));
		},
		listBatches: (options) => store.listBatches(options),
		async status() {
			const [rollouts, talks, queueDepth] = await Promise.all([
				store.counts("rollout"),
				store.counts("conversation"),
				queue.depth(),
			]);
			const conversations = { queued: talks.queued, open: talks.running, closed: talks.done };
			return { rollouts, conversations, queueDepth, queueLimit };
		},
		async leftBehind() {
			const unfinished = ["running", "queued"] as const;
			const pages = await Promise.all(unfinished.map((status) => store.list({ status }, { limit: 100_000 })));
			return await queue.leftBehind(
				pages.flatMap(({ items }) => items.map(({ id }) => id)).filter(isRollout),
			);
		},
	};
}

/** A conversation is none, though it is stored like one. */
function isRollout(id: string): boolean {
	return isStorable(id) && kindOf(id) === "rollout";
}

async function summarize(store: Store, batch: Batch): Promise<BatchSummary> {
	const total = { done: 0, running: 0, queued: 0, rewarded: 0, rewardSum: 0 };
	const outcomes: Record<string, number> = {};
	for await (const group of groupsOf(store, batch.id)) {
		total.done += group.done;
		total.running += group.running;
		total.queued += group.queued;
		for (const { outcome, reward } of group.rollouts) {
			if (outcome) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
			if (reward === null) continue;
			total.rewarded += 1;
			total.rewardSum += reward;
		}
	}
	const { done, running, queued, rewarded, rewardSum } = total;
	return { ...batch, done, running, queued, outcomes, rewardMean: rewarded ? rewardSum / rewarded : null };
}

async function* groupsOf(store: Store, batchId: string): AsyncGenerator<GroupSummary> {
	let cursor: string | undefined;
	do {
		const page = await store.listGroups({ batchId, limit: 100, cursor });
		const summaries = await Promise.all(page.items.map((group) => store.group(group.id)));
		for (const summary of summaries) if (summary) yield summary;
		cursor = page.next ?? undefined;
	} while (cursor !== undefined);
}
