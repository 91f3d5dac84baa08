import type { Batch, Group } from "../model/rollout.ts";
import type { Sealer } from "./seal.ts";
import type { NewRollout, Submission } from "./store.ts";

/** A rollout as it may touch the disk: the request holds no key, the key is sealed. */
export interface StoredRollout {
	id: string;
	taskId: string;
	groupId: string | null;
	batchId: string | null;
	labels: [string, string][];
	request: string;
	sealed: Uint8Array | null;
}

export interface StoredSubmission {
	idempotencyKey: string | null;
	rollouts: StoredRollout[];
	groups: Group[];
	batch: Batch | null;
	at: number;
}

export interface Submitted {
	ids: string[];
	groupId: string | null;
	batchId: string | null;
	fresh: boolean;
}

export function toStored(submission: Submission, sealer: Sealer): StoredSubmission {
	return {
		idempotencyKey: submission.idempotencyKey ?? null,
		rollouts: submission.rollouts.map((rollout) => toStoredRollout(rollout, sealer)),
		groups: submission.groups ?? [],
		batch: submission.batch ?? null,
		at: Date.now(),
	};
}

/** The one group, when there is exactly one: a batch of many is read by `listGroups`. */
export function onlyGroup(submission: StoredSubmission): string | null {
	return submission.groups.length === 1 ? submission.groups[0]!.id : null;
}

function toStoredRollout(rollout: NewRollout, sealer: Sealer): StoredRollout {
	const { apiKey, ...endpoint } = { apiKey: undefined, ...rollout.request.endpoint };
	return {
		id: rollout.id,
		taskId: rollout.request.task.id,
		groupId: rollout.groupId ?? null,
		batchId: rollout.batchId ?? null,
		labels: Object.entries(rollout.request.labels),
		request: JSON.stringify({ ...rollout.request, endpoint }),
		sealed: apiKey === undefined ? null : sealer.seal(apiKey, rollout.id),
	};
}
