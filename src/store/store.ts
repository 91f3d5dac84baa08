import type { BlobName } from "../model/blob.ts";
import type { Command } from "../model/command.ts";
import type { ConversationEnd, ConversationRow } from "../model/conversation.ts";
import type { EventBody, Phase, RolloutEvent } from "../model/event.ts";
import type { Failure, Outcome } from "../model/failure.ts";
import type { Kind } from "../model/id.ts";
import type { StoredRequest } from "../model/request.ts";
import type {
	Batch,
	Group,
	Rollout,
	RolloutOrder,
	RolloutRow,
	RolloutStatus,
	TraceSummary,
} from "../model/rollout.ts";
import type { Statistics } from "../model/statistics.ts";
import type { Credentials } from "./credentials.ts";
import type { KeptAgents } from "./kept-agents.ts";
import type { StatisticsOptions } from "./statistics.ts";

export type { StatisticsOptions } from "./statistics.ts";

/** A rollout to be: the request still may hold the caller's key, which the store seals. */
export interface NewRollout {
	id: string;
	request: StoredRequest;
	groupId?: string | undefined;
	batchId?: string | undefined;
}

export interface Submission {
	rollouts: NewRollout[];
	groups?: Group[] | undefined;
	batch?: Batch | undefined;
	/** A repeat with the same key returns what the first one made and makes nothing; with other content it is refused. */
	idempotencyKey?: string | undefined;
}

export interface RolloutFilter {
	/** Both, unless said. */
	kind?: Kind | undefined;
	status?: RolloutStatus | undefined;
	outcome?: Outcome | undefined;
	taskId?: string | undefined;
	groupId?: string | undefined;
	batchId?: string | undefined;
	label?: { name: string; value: string } | undefined;
	/** Who answered: exactly this name, or else all that have it in theirs, whatever the case. */
	model?: string | undefined;
	/** Each of its words begins a word of the id, the task's id, the model, a label, or the instruction's beginning. */
	text?: string | undefined;
	minReward?: number | undefined;
	maxReward?: number | undefined;
	minDurationS?: number | undefined;
	maxDurationS?: number | undefined;
	/** When it was submitted, both ends included. */
	since?: number | undefined;
	until?: number | undefined;
}

export interface Page<T> {
	items: T[];
	/** Hand it back as `cursor` for the next page; null at the end. */
	next: string | null;
}

export interface RolloutPatch {
	phase?: Phase | undefined;
	sandboxId?: string | undefined;
	sessionId?: string | undefined;
	calls?: number | undefined;
	promptTokens?: number | undefined;
	completionTokens?: number | undefined;
}

export interface RolloutEnd {
	outcome: Outcome;
	reward: number | null;
	failure: Failure | null;
	summary: TraceSummary | null;
	/** Why a conversation is over. */
	closed?: ConversationEnd | undefined;
}

export interface PostedCommand {
	/** Rises with each command. */
	number: number;
	command: Command;
}

export interface GroupSummary extends Group {
	done: number;
	running: number;
	queued: number;
	rewardMean: number | null;
	rewardStd: number | null;
	/** pass@k for k = 1, 2, 4, … up to n; a reward of 1 passes. */
	passAt: Record<string, number>;
	/** In order of creation. */
	rollouts: { id: string; status: RolloutStatus; outcome: Outcome | null; reward: number | null }[];
}

/** A rollout whose abort was asked for. One that still waited has ended with it; a running one ends in its worker. */
export interface AbortHit {
	id: string;
	attempt: number;
	ended: boolean;
}

export type AbortTarget = { id: string } | { groupId: string } | { batchId: string };

/**
 * Remembers. Embedded (node:sqlite + files) or PostgreSQL; one conformance suite. Whatever a method has resolved
 * survives `kill -9`.
 *
 * Attempts fence writers: a worker that lost its rollout to another attempt gets `false` back and must stop.
 */
export interface Store extends AsyncDisposable {
	/** Stores all of it or nothing, with a `rollout-queued` event each. `fresh` is false for an idempotent repeat. */
	submit(
		submission: Submission,
	): Promise<{ rollouts: RolloutRow[]; group: Group | null; batch: Batch | null; fresh: boolean }>;

	/** Whether a submission with this key was stored: then submitting it again makes nothing. */
	isSubmitted(idempotencyKey: string): Promise<boolean>;

	/** With its task, which may weigh megabytes; whoever asks often asks for the row. */
	get(id: string): Promise<Rollout | null>;
	row(id: string): Promise<RolloutRow | null>;
	/** Null for a rollout's id. */
	conversation(id: string): Promise<ConversationRow | null>;
	conversations(
		filter: Pick<RolloutFilter, "status" | "label">,
		options: { cursor?: string | undefined; limit: number },
	): Promise<Page<ConversationRow>>;
	list(
		filter: RolloutFilter,
		options: { cursor?: string | undefined; limit: number; order?: RolloutOrder | undefined },
	): Promise<Page<RolloutRow>>;
	/** How those that match and have ended went, by when they ended. */
	statistics(filter: RolloutFilter, options: StatisticsOptions): Promise<Statistics>;
	counts(kind?: Kind): Promise<{ queued: number; running: number; done: number }>;
	group(id: string): Promise<GroupSummary | null>;
	listGroups(options: {
		batchId?: string | undefined;
		cursor?: string | undefined;
		limit: number;
	}): Promise<Page<Group>>;
	batch(id: string): Promise<Batch | null>;
	listBatches(options: { cursor?: string | undefined; limit: number }): Promise<Page<Batch>>;

	/**
	 * Takes a rollout for a new attempt: attempt + 1, status running, event `rollout-start`. Null if it is done already;
	 * one whose abort was asked for while an attempt ran that died is ended here and gives null too.
	 */
	begin(id: string, worker: string): Promise<Rollout | null>;
	patch(id: string, attempt: number, patch: RolloutPatch): Promise<boolean>;
	/**
	 * Back to the queue after an infrastructure failure, with an `attempt-failed` event. `handedBack`: the worker stops
	 * and the attempt does not count as a try.
	 */
	requeue(
		id: string,
		attempt: number,
		failure: Failure,
		options?: { handedBack?: boolean | undefined },
	): Promise<boolean>;
	/** Ends a rollout once and for all, with its `rollout-end` event as the last one; erases its secret. False if it had ended. */
	finish(id: string, attempt: number, end: RolloutEnd): Promise<boolean>;
	/** A conversation that has ended waits for a worker again; false for anything else. The key is sealed anew. */
	reopen(id: string, options: { by: string; apiKey?: string | undefined }): Promise<boolean>;
	/** Marks every matching unfinished rollout; queued ones end at once. */
	requestAbort(target: AbortTarget): Promise<AbortHit[]>;

	/**
	 * Sequence numbers are given here, gapless for each rollout. Refused (empty array) once the rollout has ended. `patch` is
	 * what they change of its row, at once with them.
	 */
	append(id: string, attempt: number, events: EventBody[], patch?: RolloutPatch): Promise<RolloutEvent[]>;
	events(id: string, options: { after: number; limit: number }): Promise<RolloutEvent[]>;
	/** Calls back soon after anything about the rollout changed, also when another process changed it. */
	watch(id: string, onChange: () => void): Disposable;
	/**
	 * Hears every event that this process commits through this store, once it is durable, whichever verb wrote it: also
	 * the end of an aborted rollout that `begin` or `requeue` found. Other processes tell their own listeners; who wants
	 * to know of theirs watches the rollout.
	 */
	onCommit(listener: (event: RolloutEvent) => void): Disposable;

	/** Appends to the attempt's call log; durable when it resolves. */
	appendTrace(id: string, attempt: number, bytes: Uint8Array): Promise<void>;
	readTrace(id: string, attempt: number): AsyncIterable<Uint8Array>;

	/** Small named results. Only the newest attempt's are read. */
	putBlob(id: string, attempt: number, name: BlobName, data: Uint8Array): Promise<void>;
	getBlob(id: string, name: BlobName): Promise<Buffer | null>;
	/** The same, of the newest attempt that left one. */
	lastBlob(id: string, name: BlobName): Promise<Buffer | null>;
	listBlobs(id: string): Promise<BlobName[]>;

	/** Leaves a command for whoever runs the rollout, wherever that is. False when it has ended. */
	post(id: string, command: Command): Promise<boolean>;
	/** What was posted and not dropped yet, oldest first; nothing for an attempt that another has taken over from. */
	commands(id: string, attempt: number): Promise<PostedCommand[]>;
	/** Once they are obeyed: an acknowledged command outlives a worker that dies with it in its hands. */
	dropCommands(id: string, attempt: number, through: number): Promise<void>;

	/** The caller's own key, sealed at submit; null when there is none or the rollout has ended. */
	secret(id: string): Promise<string | null>;

	/** Stored provider logins. */
	readonly credentials: Credentials;
	/** Records of the agents that are kept on machines, outside any box. */
	readonly agents: KeptAgents;
	/** Makes a new master key and puts it in the old one's place; can be interrupted and repeated. */
	rotateKey(): Promise<void>;
}
