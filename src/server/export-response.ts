import { PassThrough, type Writable } from "node:stream";
import type { z } from "@hono/zod-openapi";
import { type exportRollouts, NDJSON, PARQUET } from "../api/trace.ts";
import type { Paddock } from "../paddock.ts";
import { toFilter } from "./rollout-routes.ts";
import { byteResponse, type StreamOptions } from "./stream.ts";

const KEPT_BYTES = 64 * 1024;

/** An export as it is written, only as fast as the caller reads. */
export function exportResponse(
	paddock: Paddock,
	query: z.output<typeof exportRollouts.query>,
	options: StreamOptions,
): Response {
	const { format, ids } = query;
	const selection = ids === undefined ? toFilter(query) : { ids: ids.split(",") };
	const write = (to: Writable) =>
		paddock.export(selection, format, to, {
			signal: options.stop.signal,
			minReward: query.min_reward,
			includeUntrainable: query.untrainable === "include",
			interventions: query.interventions,
		});
	const isParquet = format === "parquet";
	return byteResponse(bytesOf(write), options, {
		"content-type": isParquet ? PARQUET : NDJSON,
		"content-disposition": `attachment; filename="paddock.${isParquet ? "parquet" : `${format}.jsonl`}"`,
	});
}

/** What is written to the stream; throws what the writing throws. */
async function* bytesOf(write: (to: Writable) => Promise<unknown>): AsyncGenerator<Uint8Array> {
	const pipe = new PassThrough({ highWaterMark: KEPT_BYTES });
	const written = write(pipe).then(
		() => void pipe.end(),
		(error: Error) => void pipe.destroy(error),
	);
	for await (const chunk of pipe) yield new Uint8Array(chunk as Buffer);
	await written;
}
