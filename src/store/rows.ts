import type { ConversationEnd, ConversationRow } from "../model/conversation.ts";
import type { EventBody, Phase, RolloutEvent } from "../model/event.ts";
import type { Failure, Outcome } from "../model/failure.ts";
import type { Kind } from "../model/id.ts";
import type { RolloutTerms } from "../model/request.ts";
import type { Batch, Group, Rollout, RolloutRow, RolloutStatus } from "../model/rollout.ts";
import type { CredentialRecord, CredentialRow } from "./credential-steps.ts";
import type { KeptAgentRecord, KeptAgentRow } from "./kept-agent-steps.ts";

/** A rollout as both databases hand it out for a list; JSON columns are text. */
export interface RolloutColumns {
	position: number;
	id: string;
	kind: Kind;
	task_id: string;
	status: RolloutStatus;
	phase: Phase;
	attempt: number;
	handed_back: number;
	group_id: string | null;
	batch_id: string | null;
	created_at: number;
	started_at: number | null;
	finished_at: number | null;
	worker: string | null;
	sandbox_id: string | null;
	session_id: string | null;
	abort_requested: number | boolean;
	outcome: Outcome | null;
	closed: ConversationEnd | null;
	reward: number | null;
	failure: string | null;
	calls: number;
	prompt_tokens: number;
	completion_tokens: number;
	last_seq: number;
	duration_s: number | null;
	length: number | null;
	terms: string;
}

export interface WholeColumns extends RolloutColumns {
	task: string;
	summary: string | null;
}

export interface EventRow {
	seq: number;
	at: number;
	body: string;
}

export interface GroupRow {
	position: number;
	id: string;
	task_id: string;
	batch_id: string | null;
	n: number;
	created_at: number;
}

export interface BatchRow {
	position: number;
	id: string;
	size: number;
	created_at: number;
	labels: string;
}

export function toRow(row: RolloutColumns): RolloutRow {
	const { endpoint, sandbox, mode, priority, labels } = termsOf(row);
	return { ...stateOf(row), endpoint, sandbox, mode, priority, labels };
}

export function toRollout(row: WholeColumns): Rollout {
	const task = JSON.parse(row.task) as Rollout["request"]["task"];
	return {
		...stateOf(row),
		request: { task, ...termsOf(row) },
		summary: row.summary === null ? null : (JSON.parse(row.summary) as Rollout["summary"]),
	};
}

const STATES = { queued: "queued", running: "open", done: "closed" } as const;

export function toConversation(row: RolloutColumns): ConversationRow {
	const { endpoint, sandbox, mode, priority, labels, conversation } = termsOf(row);
	const keptAgent = conversation?.keptAgent ?? null;
	const { groupId, batchId, taskId, handedBack, abortRequested, outcome, reward, ...state } = stateOf(row);
	const { status, sandboxId = null, sessionId = null } = state;
	const { closed, last_seq: lastSeq } = row;
	const shown = { ...state, status: STATES[status], closed, sandboxId, sessionId, lastSeq };
	return {
		...shown,
		endpoint,
		sandbox: keptAgent === null ? sandbox : null,
		keptAgent,
		mode,
		priority,
		labels,
	};
}

function termsOf(row: RolloutColumns): RolloutTerms {
	return JSON.parse(row.terms) as RolloutTerms;
}

function stateOf(row: RolloutColumns): Omit<Rollout, "request" | "summary"> {
	return {
		version: 1,
		id: row.id,
		taskId: row.task_id,
		status: row.status,
		phase: row.phase,
		attempt: row.attempt,
		handedBack: row.handed_back,
		groupId: row.group_id,
		batchId: row.batch_id,
		createdAt: row.created_at,
		startedAt: row.started_at,
		finishedAt: row.finished_at,
		worker: row.worker,
		sandboxId: row.sandbox_id,
		sessionId: row.session_id,
		abortRequested: Boolean(row.abort_requested),
		outcome: row.outcome,
		reward: row.reward,
		failure: row.failure === null ? null : (JSON.parse(row.failure) as Failure),
		calls: row.calls,
		promptTokens: row.prompt_tokens,
		completionTokens: row.completion_tokens,
	};
}

/** A credential as both databases hand it out. */
export interface CredentialColumns {
	id: string;
	label: string;
	record: string;
	sealed: Uint8Array;
}

export function toCredentialRow({ record, ...row }: CredentialColumns): CredentialRow {
	// What was stored before logins could be planted, or put aside, says nothing of it.
	const before = { planted: null, quarantine: [] };
	return { ...row, record: { ...before, ...(JSON.parse(record) as CredentialRecord) } };
}

/** A kept agent as both databases hand it out. */
export interface KeptAgentColumns {
	id: string;
	name: string;
	record: string;
	sealed: Uint8Array;
	revision: number;
}

export function toKeptAgentRow({ record, ...row }: KeptAgentColumns): KeptAgentRow {
	return { ...row, record: JSON.parse(record) as KeptAgentRecord };
}

export function toEvent(rolloutId: string, row: EventRow): RolloutEvent {
	return { rolloutId, seq: row.seq, at: row.at, ...(JSON.parse(row.body) as EventBody) };
}

export function toGroup(row: GroupRow): Group {
	return { id: row.id, taskId: row.task_id, batchId: row.batch_id, n: row.n, createdAt: row.created_at };
}

export function toBatch(row: BatchRow): Batch {
	return {
		id: row.id,
		size: row.size,
		createdAt: row.created_at,
		labels: JSON.parse(row.labels) as Record<string, string>,
	};
}
