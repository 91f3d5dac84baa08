import type { OpenAPIHono } from "@hono/zod-openapi";
import { getCalls, getCertificate, getMessages, getSamples, NDJSON } from "../api/trace.ts";
import type { ModelCall } from "../model/call.ts";
import type { Rollout } from "../model/rollout.ts";
import { type Door, requireRollout, requireRow, stopWith } from "./door.ts";
import { mount } from "./mount.ts";
import { notFound, ProblemError } from "./problem.ts";
import { certificateOf, samplesOf } from "./samples.ts";
import { ndjsonResponse } from "./stream.ts";

export function mountTrace(app: OpenAPIHono, door: Door): void {
	const { paddock, log } = door;

	mount(app, getMessages, async ({ params }) => {
		const transcript = await paddock.messages(params.id);
		if (!transcript) throw notFound("rollout", params.id);
		return { rolloutId: params.id, ...transcript };
	});

	mount(app, getCalls, async ({ params, query, signal, accepts }) => {
		await requireRow(door, params.id);
		const calls = skip(paddock.calls(params.id), query.after);
		const wantsStream = query.format ? query.format === "ndjson" : accepts(NDJSON);
		if (wantsStream) return ndjsonResponse(calls, { stop: stopWith(door, signal), log });
		return await pageOfCalls(calls, query);
	});

	mount(app, getSamples, async ({ params, query, signal }) => {
		const rollout = await requireDone(door, params.id);
		const { trainable, reasons } = await certificateOf(paddock, rollout);
		if (!trainable && query.untrainable === "refuse")
			throw new ProblemError(
				409,
				"untrainable",
				`no sample can be made of ${params.id}: ${reasons.join("; ")}`,
			);
		return ndjsonResponse(samplesOf(paddock, rollout), { stop: stopWith(door, signal), log });
	});

	mount(app, getCertificate, async ({ params }) =>
		certificateOf(paddock, await requireDone(door, params.id)),
	);
}

async function* skip<T>(items: AsyncIterable<T>, count: number): AsyncGenerator<T> {
	let seen = 0;
	for await (const item of items) if (seen++ >= count) yield item;
}

async function pageOfCalls(calls: AsyncIterable<ModelCall>, query: { after: number; limit: number }) {
	const items: ModelCall[] = [];
	for await (const call of calls) {
		if (items.length === query.limit) return { items, next: query.after + items.length };
		items.push(call);
	}
	return { items, next: null };
}

async function requireDone(door: Door, id: string): Promise<Rollout> {
	const rollout = await requireRollout(door, id);
	if (rollout.status === "done") return rollout;
	throw new ProblemError(409, "rollout_unfinished", `rollout ${id} is still ${rollout.status}`);
}
