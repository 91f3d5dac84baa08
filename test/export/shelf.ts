import type { ModelCall } from "../../src/model/call.ts";
import { Rollout, RolloutRow } from "../../src/model/rollout.ts";
import { summarize } from "../../src/store/group-summary.ts";
import type { Store } from "../../src/store/store.ts";
import { TraceWriter } from "../../src/store/trace/trace-log.ts";

/** A finished rollout; say only what the test is about. */
export function aRollout(fields: Partial<Rollout> & { id: string }): Rollout {
	return Rollout.parse({
		version: 1,
		taskId: "echo",
		status: "done",
		phase: "done",
		attempt: 1,
		request: {
			task: { id: "echo", instruction: "say hello" },
			endpoint: { type: "policy", policy: "oracle" },
		},
		groupId: null,
		batchId: null,
		createdAt: 1_700_000_000_000,
		startedAt: 1_700_000_001_000,
		finishedAt: 1_700_000_003_500,
		worker: "here",
		abortRequested: false,
		outcome: "completed",
		reward: 1,
		failure: null,
		calls: 0,
		promptTokens: 0,
		completionTokens: 0,
		summary: null,
		...fields,
	});
}

export function toRow(rollout: Rollout): RolloutRow {
	return RolloutRow.parse({ ...rollout, ...rollout.request });
}

/** Rollouts and real traces in memory: the part of a store that exporting reads. */
export class Shelf implements Pick<Store, "list" | "get" | "group" | "readTrace"> {
	readonly #rollouts: Rollout[] = [];
	readonly #traces = new Map<string, Uint8Array[]>();
	/** How often a group was asked for. */
	groupReads = 0;

	async put(rollout: Rollout, calls: ModelCall[]): Promise<this> {
		this.#rollouts.push({ ...rollout, calls: rollout.calls || calls.length });
		const trace: Uint8Array[] = [];
		const writer = new TraceWriter(async (bytes) => void trace.push(bytes));
		for (const call of calls) await writer.write(call);
		this.#traces.set(`${rollout.id} ${rollout.attempt}`, trace);
		return this;
	}

	list: Store["list"] = async (filter, { cursor, limit }) => {
		const from = Number(cursor ?? 0);
		const matching = this.#rollouts.filter(
			(rollout) =>
				(filter.status === undefined || rollout.status === filter.status) &&
				(filter.groupId === undefined || rollout.groupId === filter.groupId),
		);
		const next = from + limit < matching.length ? String(from + limit) : null;
		return { items: matching.slice(from, from + limit).map(toRow), next };
	};

	get: Store["get"] = async (id) => this.#rollouts.find((rollout) => rollout.id === id) ?? null;

	group: Store["group"] = async (id) => {
		this.groupReads++;
		const members = this.#rollouts.filter((rollout) => rollout.groupId === id);
		const group = { id, taskId: "echo", batchId: null, n: members.length, createdAt: 0 };
		return summarize(group, members);
	};

	async *readTrace(id: string, attempt: number): AsyncGenerator<Uint8Array> {
		yield* this.#traces.get(`${id} ${attempt}`) ?? [];
	}
}
