import { UsageError } from "../errors.ts";
import { modelOf } from "../model/endpoint.ts";
import type { EventBody, RolloutEvent } from "../model/event.ts";
import { type Kind, kindOf } from "../model/id.ts";
import type { RolloutTerms } from "../model/request.ts";
import type { Batch, Group } from "../model/rollout.ts";
import type { Task } from "../model/task.ts";
import { fingerprint } from "./fingerprint.ts";
import type { NewRollout, Submission } from "./store.ts";
import { type StoredTask, toStoredTask } from "./stored-task.ts";
import type { SealingKey } from "./vault/seal.ts";
import { wordsOf } from "./words.ts";

/** A rollout as it may touch the disk: its terms hold no key, the key is sealed. */
export interface StoredRollout {
	id: string;
	kind: Kind;
	taskId: string;
	model: string;
	/** What a search finds it by, separated by spaces. */
	words: string;
	groupId: string | null;
	batchId: string | null;
	labels: [string, string][];
	terms: string;
	taskHash: string;
	sealed: Uint8Array | null;
}

export interface StoredSubmission {
	idempotencyKey: string | null;
	/** Beside the key, so that a repeat can be told from another request. */
	fingerprint: string | null;
	tasks: StoredTask[];
	rollouts: StoredRollout[];
	groups: Group[];
	batch: Batch | null;
	at: number;
}

export interface Submitted {
	ids: string[];
	groupId: string | null;
	batchId: string | null;
	/** Of the submission that was stored; null without a key. */
	fingerprint: string | null;
	fresh: boolean;
}

/** An earlier submission as both databases hand it out. */
export interface SubmissionRow {
	rollout_ids: string;
	group_id: string | null;
	batch_id: string | null;
	fingerprint: string | null;
}

export function toKnown(row: SubmissionRow): Submitted {
	const ids = JSON.parse(row.rollout_ids) as string[];
	return { ids, groupId: row.group_id, batchId: row.batch_id, fingerprint: row.fingerprint, fresh: false };
}

export function toStored(submission: Submission, key: SealingKey): StoredSubmission {
	// The rollouts of a group share their task object, so that it is written out once, not n times.
	const tasks = new Map<Task, StoredTask>();
	const rollouts = submission.rollouts.map((rollout) => {
		const { task } = rollout.request;
		const stored = tasks.get(task) ?? toStoredTask(task);
		tasks.set(task, stored);
		return toStoredRollout(rollout, stored.hash, key);
	});
	return {
		idempotencyKey: submission.idempotencyKey ?? null,
		fingerprint: submission.idempotencyKey === undefined ? null : fingerprint(submission, key),
		tasks: [...new Map([...tasks.values()].map((task) => [task.hash, task])).values()],
		rollouts,
		groups: submission.groups ?? [],
		batch: submission.batch ?? null,
		at: Date.now(),
	};
}

/** The first event of each, as it is stored … */
export function firstEvent({ kind, taskId }: StoredRollout): EventBody {
	return kind === "conversation" ? { type: "conversation-queued" } : { type: "rollout-queued", taskId };
}

/** … and announced. */
export function queuedEvents({ rollouts, at }: StoredSubmission): RolloutEvent[] {
	return rollouts.map((rollout) => ({ rolloutId: rollout.id, seq: 1, at, ...firstEvent(rollout) }));
}

/** Refuses a key that was used for something else: its caller would take the first request's rollouts for its own. */
export function requireSame(asked: StoredSubmission, found: Submitted): void {
	if (found.fresh || found.fingerprint === asked.fingerprint) return;
	throw new UsageError(
		"this idempotency key was used before for another request: repeat that one, or take a new key",
		"idempotency_conflict",
	);
}

export function toSubmitted({ rollouts, groups, batch, fingerprint }: StoredSubmission): Submitted {
	return {
		ids: rollouts.map((rollout) => rollout.id),
		// The one group, when there is exactly one: a batch of many is read by `listGroups`.
		groupId: groups.length === 1 ? groups[0]!.id : null,
		batchId: batch?.id ?? null,
		fingerprint,
		fresh: true,
	};
}

/** How much of an instruction is found by a search. */
const SEARCHED_CHARACTERS = 400;

function searchable({ id, request: { task, endpoint, labels } }: NewRollout): string {
	const instruction = task.instruction.slice(0, SEARCHED_CHARACTERS);
	return wordsOf([id, task.id, modelOf(endpoint), ...Object.values(labels), instruction].join(" ")).join(" ");
}

function toStoredRollout(rollout: NewRollout, taskHash: string, key: SealingKey): StoredRollout {
	const { task, ...terms } = rollout.request;
	const { apiKey, ...endpoint } = { apiKey: undefined, ...terms.endpoint };
	return {
		id: rollout.id,
		kind: kindOf(rollout.id),
		taskId: task.id,
		model: modelOf(terms.endpoint),
		words: searchable(rollout),
		groupId: rollout.groupId ?? null,
		batchId: rollout.batchId ?? null,
		labels: Object.entries(terms.labels),
		terms: JSON.stringify({ ...terms, endpoint } satisfies RolloutTerms),
		taskHash,
		sealed: apiKey === undefined ? null : key.seal(apiKey, rollout.id),
	};
}
