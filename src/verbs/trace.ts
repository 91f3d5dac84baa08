import type { AgentMessage } from "../agent/agent.ts";
import { expectedOf } from "../export/certificate.ts";
import { toResult } from "../export/result.ts";
import { certify } from "../export/rows.ts";
import { SampleBuilder } from "../export/samples.ts";
import { TokenTally } from "../export/token-sums.ts";
import type { Live } from "../live/live.ts";
import { readLive } from "../live/reading.ts";
import type { ModelCall } from "../model/call.ts";
import { untilTimeout } from "../model/duration.ts";
import { kindOf } from "../model/id.ts";
import type { Rollout, RolloutRow } from "../model/rollout.ts";
import type { Sample } from "../model/sample.ts";
import { follow, untilOver } from "../store/follow.ts";
import type { Store } from "../store/store.ts";
import { readCalls } from "../store/trace/trace-log.ts";
import type { EventOptions, EventPage, Reading, Tracing, Transcript } from "./verbs.ts";

/** What one rollout left, or leaves just now. */
export function tracing(
	store: Store,
	live: Live,
	{ rollout, row }: Pick<Reading, "rollout" | "row">,
): Tracing {
	return {
		async *follow(id, options) {
			if ((await row(id)) !== null) yield* follow(store, id, options);
		},
		async *followLive(id, options) {
			if ((await row(id)) !== null) yield* readLive(follow(store, id, options), live, id, options);
		},
		async events(id, options) {
			return (await row(id)) === null ? null : await pageOfEvents(store, id, options);
		},
		async wait(id, { timeoutMs, signal }) {
			if ((await row(id)) === null) return null;
			await untilOver(store, id, untilTimeout(timeoutMs, signal));
			return await store.get(id);
		},
		async result(id) {
			const found = await rollout(id);
			return found && (await toResult(found, callsOf(store, found), (name) => store.getBlob(id, name)));
		},
		async messages(id) {
			const found = await rollout(id);
			return found && (await transcriptOf(store, found));
		},
		async *calls(id) {
			const found = await row(id);
			if (found !== null) yield* callsOf(store, found);
		},
		async certificate(id, { interventions } = {}) {
			const found = await rollout(id);
			if (found === null) return null;
			return await certify(() => callsOf(store, found), { expected: expectedOf(found), interventions });
		},
		async tokenSums(of) {
			const tally = new TokenTally();
			for await (const { id } of finished(store, of)) {
				const found = await store.get(id);
				if (found) tally.add(await certify(() => callsOf(store, found), { expected: expectedOf(found) }));
			}
			return tally.sums();
		},
		async *samples(id, { interventions } = {}) {
			const found = await rollout(id);
			if (found === null) return;
			const { id: rolloutId, taskId, groupId, reward } = found;
			const toRow = (sample: Sample) => ({ rolloutId, taskId, groupId, reward, ...sample });
			const builder = new SampleBuilder({ expected: expectedOf(found), interventions });
			for await (const call of callsOf(store, found)) yield* builder.add(call).map(toRow);
			yield* builder.finish().samples.map(toRow);
		},
		blobs: async (id) => ((await row(id)) === null ? [] : await store.listBlobs(id)),
		blob: async (id, name) => ((await row(id)) === null ? null : await store.getBlob(id, name)),
		async export(selection, format, destination, options) {
			// Loaded when asked for: it brings a whole database along.
			const { exportRollouts } = await import("../export/export.ts");
			return await exportRollouts(store, selection, format, destination, options);
		},
	};
}

async function* finished(
	store: Store,
	of: { groupId: string } | { batchId: string },
): AsyncGenerator<RolloutRow> {
	let cursor: string | undefined;
	do {
		const page = await store.list({ ...of, status: "done" }, { limit: 100, order: "oldest", cursor });
		yield* page.items;
		cursor = page.next ?? undefined;
	} while (cursor !== undefined);
}

/** What there is after `after`; when that is nothing yet, waits for the first event until time is up. */
async function pageOfEvents(store: Store, id: string, options: EventOptions): Promise<EventPage> {
	const { after, limit, waitMs = 0, signal } = options;
	if (waitMs > 0) {
		const until = untilTimeout(waitMs, signal);
		for await (const _first of follow(store, id, { after, signal: until })) break;
	}
	// Asked before the events are read: whatever is over by now has all its events.
	const isOver = (await store.row(id))?.status === "done";
	const items = await store.events(id, { after, limit });
	const last = items.at(-1);
	return {
		items,
		next: last?.seq ?? after,
		done: last?.type === "rollout-end" || (last === undefined && isOver),
	};
}

function callsOf(store: Store, rollout: Pick<Rollout, "id" | "attempt">): AsyncIterable<ModelCall> {
	return readCalls(() => store.readTrace(rollout.id, rollout.attempt));
}

/** Of the newest attempt that left one: a conversation that is being opened again has its history already. */
export async function transcriptOf(
	store: Store,
	rollout: { id: string; status: string; phase: string; sessionId?: string | null | undefined },
): Promise<Transcript> {
	const isConversation = kindOf(rollout.id) === "conversation";
	const read = isConversation ? store.lastBlob : store.getBlob;
	const stored = await read.call(store, rollout.id, "transcript.json");
	const messages = stored === null ? [] : (JSON.parse(stored.toString("utf8")) as AgentMessage[]);
	const note = messages.length > 0 ? null : `no messages yet: it is ${rollout.status} (${rollout.phase})`;
	return { sessionId: rollout.sessionId ?? null, messages, note };
}
