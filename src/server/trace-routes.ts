import type { OpenAPIHono } from "@hono/zod-openapi";
import { exportRollouts, getCalls, getCertificate, getMessages, getSamples, NDJSON } from "../api/trace.ts";
import type { ModelCall } from "../model/call.ts";
import type { Certificate, InterventionHandling } from "../model/sample.ts";
import { exportResponse } from "./export-response.ts";
import { type HttpDoor, known, openExport, openStream, requireRow } from "./http-door.ts";
import { mount } from "./mount.ts";
import { ProblemError } from "./problem.ts";
import { ndjsonResponse } from "./stream.ts";

export function mountTrace(app: OpenAPIHono, door: HttpDoor): void {
	const { paddock, log } = door;

	mount(app, getMessages, async ({ params }) => {
		const transcript = known(await paddock.messages(params.id), "rollout", params.id);
		return { rolloutId: params.id, ...transcript };
	});

	mount(app, getCalls, async ({ params, query, signal, accepts }) => {
		await requireRow(door, params.id);
		const calls = skip(paddock.calls(params.id), query.after);
		const wantsStream = query.format ? query.format === "ndjson" : accepts(NDJSON);
		if (wantsStream) return ndjsonResponse(calls, { stop: openStream(door, signal), log });
		return await pageOfCalls(calls, query);
	});

	mount(app, getSamples, async ({ params, query, signal }) => {
		const { trainable, reasons } = await certificateOf(door, params.id, query);
		if (!trainable && query.untrainable === "refuse")
			throw new ProblemError(
				409,
				"untrainable",
				`no sample can be made of ${params.id}: ${reasons.join("; ")}`,
			);
		return ndjsonResponse(paddock.samples(params.id, query), { stop: openStream(door, signal), log });
	});

	mount(app, exportRollouts, async ({ query, signal }) =>
		exportResponse(paddock, query, { stop: openExport(door, signal), log }),
	);

	mount(app, getCertificate, ({ params, query }) => certificateOf(door, params.id, query));
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

/** Nothing is certified before the last call is in. */
async function certificateOf(
	door: HttpDoor,
	id: string,
	{ interventions }: { interventions: InterventionHandling },
): Promise<Certificate> {
	const { status } = await requireRow(door, id);
	if (status !== "done")
		throw new ProblemError(409, "rollout_unfinished", `rollout ${id} is still ${status}`);
	return known(await door.paddock.certificate(id, { interventions }), "rollout", id);
}
