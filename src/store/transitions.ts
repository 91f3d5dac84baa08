import type { ConversationEnd } from "../model/conversation.ts";
import type { EventBody, RolloutEvent } from "../model/event.ts";
import type { Failure } from "../model/failure.ts";
import { kindOf } from "../model/id.ts";
import type { RolloutStatus } from "../model/rollout.ts";
import type { RolloutColumns } from "./rows.ts";
import type { RolloutEnd, RolloutPatch } from "./store.ts";

/** What decides about a rollout's next state: read under a lock, by the transaction that changes it. */
export interface Head {
	position: number;
	id: string;
	status: RolloutStatus;
	attempt: number;
	handed_back: number;
	last_seq: number;
	abort_requested: number | boolean;
	started_at: number | null;
	completion_tokens: number;
}

export const HEAD =
	"position, id, status, attempt, handed_back, last_seq, abort_requested, started_at, completion_tokens";

/** What may be done to a rollout, as plain data: it travels to the thread that writes. */
export type Step =
	| { type: "begin"; worker: string }
	| { type: "append"; attempt: number; events: EventBody[]; patch: RolloutPatch }
	| { type: "requeue"; attempt: number; failure: Failure; handedBack: boolean }
	| { type: "finish"; attempt: number; end: RolloutEnd }
	| { type: "reopen"; by: string; sealed: Uint8Array | null }
	| { type: "abort" }
	| { type: "post"; command: string };

/** What a step does to one rollout. With `status: "done"` its secret and its commands are erased as well. */
export interface Transition {
	/** By column. */
	set: Partial<Omit<RolloutColumns, "position" | "id" | "terms"> & PhaseFigures>;
	events: EventBody[];
	summary?: string | undefined;
	command?: string | undefined;
	sealed?: Uint8Array | undefined;
}

/** Seconds spent in each phase, for statistics. */
interface PhaseFigures {
	create_s: number | null;
	setup_s: number | null;
	agent_s: number | null;
	verify_s: number | null;
	collect_s: number | null;
}

/** A rollout as a step left it. */
export interface Change {
	head: Head;
	transition: Transition;
	events: RolloutEvent[];
}

/** Null where the rollout has ended, or belongs to another attempt: then the step is refused. */
export function change(head: Head, step: Step, at: number): Change | null {
	const transition = isDue(head, step) ? transitionOf(head, step, at) : null;
	if (transition === null) return null;
	const events = transition.events.map((event, index) => ({
		rolloutId: head.id,
		seq: head.last_seq + 1 + index,
		at,
		...event,
	}));
	return {
		head: { ...head, ...transition.set, last_seq: head.last_seq + events.length },
		transition,
		events,
	};
}

/** What has ended takes no step but one, and that only if it is a conversation. */
function isDue({ id, status }: Head, step: Step): boolean {
	return (
		(status === "done") === (step.type === "reopen") && (status !== "done" || kindOf(id) === "conversation")
	);
}

/** Which rollouts a step is about, as a condition. */
export function dueFor(step: Step): string {
	return step.type === "reopen" ? "status = 'done'" : "status <> 'done'";
}

function transitionOf(head: Head, step: Step, at: number): Transition | null {
	switch (step.type) {
		case "begin":
			return begin(head, step.worker, at);
		case "append":
			return isHeld(head, step.attempt) ? { set: toColumns(step.patch), events: step.events } : null;
		case "requeue":
			return isHeld(head, step.attempt) ? requeue(head, step.failure, step.handedBack, at) : null;
		case "finish":
			return head.attempt === step.attempt ? end(head, step.end, at) : null;
		case "reopen":
			return reopen(head, step.by, step.sealed);
		case "abort":
			return abort(head, at);
		case "post":
			return { set: {}, events: [], command: step.command };
	}
}

/** Attempts fence writers: only the newest one's worker may write, and only while it runs. */
function isHeld(head: Head, attempt: number): boolean {
	return head.status === "running" && head.attempt === attempt;
}

function begin(head: Head, worker: string, at: number): Transition {
	// The abort was asked for while an attempt ran that died of something else: nobody is left to end it.
	if (head.abort_requested) return end(head, ABORTED, at);
	const attempt = head.attempt + 1;
	const running = { status: "running", phase: "create", attempt, worker, started_at: at } as const;
	// A conversation goes on: its session and what it has used so far stay.
	if (kindOf(head.id) === "conversation") {
		const set = { ...running, sandbox_id: null };
		return { set, events: [{ type: "conversation-start", attempt, worker }] };
	}
	return {
		set: {
			...running,
			...{ sandbox_id: null, session_id: null, calls: 0, prompt_tokens: 0, completion_tokens: 0 },
		},
		events: [{ type: "rollout-start", attempt, worker }],
	};
}

/** What was tried before counts no more. */
function reopen(head: Head, by: string, sealed: Uint8Array | null): Transition {
	return {
		set: {
			...{ status: "queued", phase: "queued", worker: null, handed_back: head.attempt },
			...{ abort_requested: false, finished_at: null, outcome: null, closed: null, failure: null },
		},
		events: [{ type: "conversation-reopen", by }],
		...(sealed === null ? {} : { sealed }),
	};
}

function requeue(head: Head, failure: Failure, handedBack: boolean, at: number): Transition {
	const failed: EventBody = { type: "attempt-failed", attempt: head.attempt, failure };
	if (head.abort_requested) {
		const ended = end(head, ABORTED, at);
		return { ...ended, events: [failed, ...ended.events] };
	}
	const handed_back = head.handed_back + (handedBack ? 1 : 0);
	return { set: { status: "queued", phase: "queued", worker: null, handed_back }, events: [failed] };
}

/** A running rollout is only marked: its worker hears of it and ends it. */
function abort(head: Head, at: number): Transition {
	const ended = head.status === "queued" ? end(head, ABORTED, at) : { set: {}, events: [] };
	return { ...ended, set: { ...ended.set, abort_requested: true } };
}

const ABORTED: RolloutEnd = { outcome: "aborted", reward: null, failure: null, summary: null };

function end(head: Head, ended: RolloutEnd, at: number): Transition {
	const { outcome, reward, failure, summary } = ended;
	const closed = kindOf(head.id) === "conversation" ? (ended.closed ?? toClosed(ended)) : null;
	const { attempt } = head;
	return {
		set: {
			...{ status: "done", phase: "done", finished_at: at, outcome, reward, closed },
			failure: failure === null ? null : JSON.stringify(failure),
			...figuresOf(head, summary?.timings ?? {}, at),
		},
		events: [
			closed === null
				? { type: "rollout-end", outcome, reward, failure, attempt }
				: { type: "conversation-end", reason: closed, failure, attempt },
		],
		summary: summary === null ? undefined : JSON.stringify(summary),
	};
}

function toClosed({ outcome }: RolloutEnd): ConversationEnd {
	return outcome === "failed" ? "failed" : "asked";
}

function figuresOf(head: Head, timings: Record<string, number>, at: number): Transition["set"] {
	const seconds = (phase: string) => timings[phase] ?? null;
	return {
		duration_s: head.started_at === null ? null : Math.max(0, at - head.started_at) / 1000,
		length: head.completion_tokens,
		...{ create_s: seconds("create"), setup_s: seconds("setup"), agent_s: seconds("agent") },
		...{ verify_s: seconds("verify"), collect_s: seconds("collect") },
	};
}

function toColumns(patch: RolloutPatch): Transition["set"] {
	const columns = {
		phase: patch.phase,
		sandbox_id: patch.sandboxId,
		session_id: patch.sessionId,
		calls: patch.calls,
		prompt_tokens: patch.promptTokens,
		completion_tokens: patch.completionTokens,
	};
	return Object.fromEntries(Object.entries(columns).filter(([, value]) => value !== undefined));
}
