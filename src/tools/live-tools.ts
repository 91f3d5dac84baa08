import { z } from "zod";
import { isAbort } from "../errors.ts";
import { toTimerMs } from "../model/duration.ts";
import type { RolloutEvent } from "../model/event.ts";
import type { Rollout } from "../model/rollout.ts";
import type { Paddock } from "../paddock.ts";
import { readArguments } from "./arguments.ts";
import { unknownRollout } from "./result.ts";
import { sessionIdOf } from "./session-id.ts";
import type { Tool } from "./tools.ts";

const rolloutId = z.string().min(1).max(120).describe("As start_rollout returned it");
const ById = z.strictObject({ rollout_id: rolloutId });

const status = z.enum(["starting", "running", "done", "unknown"]);
const State = z.object({
	rollout_id: z.string(),
	task_id: z.string(),
	status,
	phase: z.string().nullable(),
	serve_session_id: z.string().nullable(),
	proxy_turns_so_far: z.int(),
	error: z.string().nullable(),
	started_at: z.number().nullable(),
	finished_at: z.number().nullable(),
	outcome: z.string().nullable(),
	reward: z.number().nullable(),
	attempt: z.int(),
});

const Messages = z.object({
	rollout_id: z.string(),
	status,
	serve_session_id: z.string().nullable(),
	messages: z.array(z.object({ info: z.record(z.string(), z.unknown()), parts: z.array(z.unknown()) })),
	note: z.string().nullable(),
});

const SubscribeArguments = z.strictObject({
	rollout_id: rolloutId,
	cursor: z.int().min(0).nullish().describe("next_cursor of the answer before; absent: from the beginning"),
	wait_s: z.number().min(0).max(45).nullish().describe("How long to wait for something new. Default 25"),
	limit: z.int().min(1).max(1000).nullish().describe("At most so many events. Default 200"),
});

const Events = z.object({
	rollout_id: z.string(),
	status,
	events: z.array(z.record(z.string(), z.unknown())),
	next_cursor: z.int(),
	done: z.boolean().describe("The last event has been handed out"),
	sse_url: z.string().describe("The same events as a server-sent stream"),
});

const Aborted = z.object({ rollout_id: z.string(), aborted: z.boolean(), reason: z.string().optional() });

/** The tools for a rollout that is under way. */
export function liveTools(paddock: Paddock): Tool[] {
	return [getState(paddock), getMessages(paddock), subscribeEvents(paddock), abortRollout(paddock)];
}

function getState(paddock: Paddock): Tool {
	return {
		name: "get_state",
		title: "Where a rollout stands",
		description: "Status, phase and counts of a rollout. An unknown id is status unknown, not an error.",
		input: ById,
		output: State,
		isLong: false,
		readOnly: true,
		async run(value) {
			const { rollout_id: id } = readArguments(ById, value);
			const rollout = await paddock.store.get(id);
			return rollout === null
				? unknownState(id)
				: toState(rollout, await sessionIdOf(paddock.store, rollout));
		},
	};
}

function getMessages(paddock: Paddock): Tool {
	return {
		name: "get_messages",
		title: "What the agent said and did",
		description: "The transcript in OpenCode's own message shape, live and after the end.",
		input: ById,
		output: Messages,
		isLong: false,
		readOnly: true,
		async run(value) {
			const { rollout_id: id } = readArguments(ById, value);
			const [rollout, transcript] = [await paddock.store.row(id), await paddock.messages(id)];
			if (rollout === null || transcript === null)
				return {
					rollout_id: id,
					status: "unknown",
					serve_session_id: null,
					messages: [],
					note: "no rollout has this id",
				};
			return {
				rollout_id: id,
				status: statusOf(rollout),
				serve_session_id: transcript.sessionId,
				messages: transcript.messages,
				note: transcript.note,
			};
		},
	};
}

function subscribeEvents(paddock: Paddock): Tool {
	return {
		name: "subscribe_events",
		title: "What happened since",
		description:
			"Events after `cursor`, waiting up to wait_s for the first new one. Call again with next_cursor until done.",
		input: SubscribeArguments,
		output: Events,
		isLong: true,
		readOnly: true,
		async run(value, context) {
			const { rollout_id: id, cursor, wait_s, limit } = readArguments(SubscribeArguments, value);
			if ((await paddock.store.row(id)) === null) throw unknownRollout(id);
			const after = cursor ?? 0;
			await firstEvent(
				paddock,
				id,
				after,
				AbortSignal.any([context.signal, AbortSignal.timeout(toTimerMs((wait_s ?? 25) * 1000))]),
			);
			context.signal.throwIfAborted();
			const events = await paddock.store.events(id, { after, limit: limit ?? 200 });
			const rollout = await paddock.store.row(id);
			if (rollout === null) throw unknownRollout(id);
			return {
				rollout_id: id,
				status: statusOf(rollout),
				events,
				next_cursor: events.at(-1)?.seq ?? after,
				done: events.at(-1)?.type === "rollout-end" || (events.length === 0 && rollout.status === "done"),
				sse_url: `${context.origin ?? ""}/api/v1/rollouts/${encodeURIComponent(id)}/events`,
			};
		},
	};
}

function abortRollout(paddock: Paddock): Tool {
	return {
		name: "abort_rollout",
		title: "Stop a rollout",
		description: "Stops token generation at once, then unwinds; what was captured is kept in the result.",
		input: ById,
		output: Aborted,
		isLong: false,
		readOnly: false,
		async run(value) {
			const { rollout_id: id } = readArguments(ById, value);
			const aborted = (await paddock.abort({ id })).includes(id);
			if (aborted) return { rollout_id: id, aborted };
			const rollout = await paddock.store.row(id);
			const reason =
				rollout === null
					? "no rollout has this id"
					: `it has ended already: ${rollout.outcome ?? rollout.status}`;
			return { rollout_id: id, aborted, reason };
		},
	};
}

function statusOf(rollout: Pick<Rollout, "status">): z.infer<typeof status> {
	return rollout.status === "queued" ? "starting" : rollout.status;
}

function toState(rollout: Rollout, sessionId: string | null): z.infer<typeof State> {
	return {
		rollout_id: rollout.id,
		task_id: rollout.taskId,
		status: statusOf(rollout),
		phase: rollout.phase,
		serve_session_id: sessionId,
		proxy_turns_so_far: rollout.calls,
		error: rollout.failure?.message ?? null,
		started_at: (rollout.startedAt ?? rollout.createdAt) / 1000,
		finished_at: rollout.finishedAt === null ? null : rollout.finishedAt / 1000,
		outcome: rollout.outcome,
		reward: rollout.reward,
		attempt: rollout.attempt,
	};
}

function unknownState(id: string): z.infer<typeof State> {
	return {
		rollout_id: id,
		task_id: "",
		status: "unknown",
		phase: null,
		serve_session_id: null,
		proxy_turns_so_far: 0,
		error: "no rollout has this id",
		started_at: null,
		finished_at: null,
		outcome: null,
		reward: null,
		attempt: 0,
	};
}

/** Resolves with the first event after the cursor, or null when the rollout or the patience has ended. */
async function firstEvent(
	paddock: Paddock,
	id: string,
	after: number,
	signal: AbortSignal,
): Promise<RolloutEvent | null> {
	try {
		for await (const event of paddock.follow(id, { after, signal })) return event;
	} catch (error) {
		if (!signal.aborted && !isAbort(error)) throw error;
	}
	return null;
}
