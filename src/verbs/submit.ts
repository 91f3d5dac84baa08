import type { Config } from "../config.ts";
import { UsageError } from "../errors.ts";
import { newId } from "../model/id.ts";
import type { RolloutRequest } from "../model/request.ts";
import type { Batch, Group } from "../model/rollout.ts";
import type { Queue } from "../queue/queue.ts";
import type { NewRollout, Store, Submission } from "../store/store.ts";
import type { Admission } from "./admission.ts";
import { requireCredentials } from "./credentials.ts";
import { requireAcceptable, requireModest } from "./request-rules.ts";
import { requireStorable } from "./storable-text.ts";
import type { Submitting } from "./verbs.ts";

/** How new rollouts come in: checked, admitted, stored, then queued. Whoever asks, there is no other way. */
export function submitting(config: Config, store: Store, queue: Queue, admission: Admission): Submitting {
	async function keep(submission: Submission): ReturnType<Store["submit"]> {
		const { rollouts, idempotencyKey } = submission;
		return await admission.admit(rollouts.length, idempotencyKey, async () => {
			const made = await store.submit(submission);
			const unfinished = made.rollouts.filter((rollout) => rollout.status !== "done");
			await queue.enqueue(unfinished.map(({ id, priority }) => ({ rolloutId: id, priority })));
			return made;
		});
	}

	return {
		async submit(request, { n = 1, group = n > 1, idempotencyKey } = {}) {
			requireModest([request], n);
			requireAcceptable(request, config);
			await requireCredentials([request], store, config.env);
			requireStorable(idempotencyKey, "idempotencyKey");
			const groups = group ? [newGroup(request, n, null)] : [];
			const rollouts = repeat(request, n, groups[0]?.id);
			const made = await keep({ rollouts, groups, idempotencyKey });
			return { rollouts: made.rollouts, group: made.group };
		},
		async submitBatch(requests, { n, labels = {}, idempotencyKey }) {
			if (requests.length === 0) throw new UsageError("a batch needs at least one task", "empty_batch");
			requireModest(requests, n);
			for (const request of requests) requireAcceptable(request, config);
			await requireCredentials(requests, store, config.env);
			requireStorable({ labels, idempotencyKey }, "batch");
			const batch: Batch = { id: newId("ba"), size: requests.length * n, createdAt: Date.now(), labels };
			const groups = requests.map((request) => newGroup(request, n, batch.id));
			const rollouts = requests.flatMap((request, index) => repeat(request, n, groups[index]!.id, batch.id));
			const made = await keep({ rollouts, groups, batch, idempotencyKey });
			return { batch: made.batch!, rollouts: made.rollouts };
		},
	};
}

function newGroup(request: RolloutRequest, n: number, batchId: string | null): Group {
	return { id: newId("gr"), taskId: request.task.id, batchId, n, createdAt: Date.now() };
}

function repeat(request: RolloutRequest, n: number, groupId?: string, batchId?: string): NewRollout[] {
	return Array.from({ length: n }, () => ({ id: newId("ro"), request, groupId, batchId }));
}
