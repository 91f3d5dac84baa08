import { z } from "zod";
import { ModelCall } from "../model/call.ts";
import { RolloutEvent } from "../model/event.ts";
import { POSITION } from "../model/live-text.ts";
import { Certificate, Sample } from "../model/sample.ts";
import { FilterQuery, waitSeconds } from "./rollouts.ts";
import { API, IdParams, route, whole } from "./route.ts";

const NOT_FOUND = { 404: "No rollout has this id" };
/** What is streamed is bounded in number. */
export const STREAMED = { 429: "Too many streams are open; Retry-After says when to come back" };
const tag = "trace";

export const SSE = "text/event-stream";
export const NDJSON = "application/x-ndjson";
export const PARQUET = "application/vnd.apache.parquet";

export const EventPage = z
	.object({
		items: z.array(RolloutEvent),
		next: z.int().describe("Hand it back as `after`"),
		done: z.boolean().describe("The end event is among these or before them"),
	})
	.meta({ id: "EventPage" });
export type EventPage = z.infer<typeof EventPage>;

export const EventQuery = z.object({
	after: whole(0, Number.MAX_SAFE_INTEGER, 0).describe("The last sequence number already seen"),
	limit: whole(1, 5000, 1000),
	wait_s: waitSeconds,
	format: z.enum(["json", "sse"]).optional().describe("Wins over the Accept header"),
});

/** Whether a stream shows text while it is being written; `unsaid` holds for callers who do not say. */
export function liveWish(unsaid: "true" | "false") {
	return z
		.enum(["true", "false"])
		.default(unsaid)
		.describe("In a stream: between the events also text as it is being written, which is not stored");
}

export const EventHeaders = z.object({
	"last-event-id": z
		.string()
		.regex(POSITION)
		.optional()
		.describe("Wins over `after`; of a live stream it also says how much of each text you have"),
});

export const getEvents = route({
	name: "getEvents",
	method: "get",
	path: `${API}/rollouts/{id}/events`,
	tag,
	summary:
		"What happened, in order. With `Accept: text/event-stream` live until the end event, resuming after `Last-Event-ID`; otherwise a page, waiting up to wait_s for the first event",
	params: IdParams,
	query: EventQuery.extend({ live: liveWish("false") }),
	headers: EventHeaders,
	reply: EventPage,
	media: {
		[SSE]:
			"`id` is the sequence number, `data` a RolloutEvent; comments keep the line alive. With live=true also LiveText, whose `id` says how much of each text you have",
	},
	empty: "The rollout is over and there are no events after that one: do not come back for more",
	refusals: { ...NOT_FOUND, ...STREAMED },
});

export const Messages = z.object({
	rolloutId: z.string(),
	sessionId: z.string().nullable(),
	messages: z.array(
		z.object({
			info: z.record(z.string(), z.unknown()),
			parts: z.array(z.record(z.string(), z.unknown())),
		}),
	),
	note: z.string().nullable().describe("Why there is nothing yet"),
});

export const getMessages = route({
	name: "getMessages",
	method: "get",
	path: `${API}/rollouts/{id}/messages`,
	tag,
	summary: "The transcript, in OpenCode's own message shape",
	params: IdParams,
	reply: Messages,
	refusals: NOT_FOUND,
});

export const getCalls = route({
	name: "getCalls",
	method: "get",
	path: `${API}/rollouts/{id}/calls`,
	tag,
	summary:
		"Every captured call with its tokens, in the order in which they ended: a page, or all as one JSON object per line",
	params: IdParams,
	query: z.object({
		after: whole(0, Number.MAX_SAFE_INTEGER, 0).describe("How many calls were already read"),
		limit: whole(1, 500, 50),
		format: z.enum(["json", "ndjson"]).optional().describe("Wins over the Accept header"),
	}),
	reply: z.object({
		items: z.array(ModelCall),
		next: z.int().nullable().describe("Hand it back as `after`; null at the end"),
	}),
	media: { [NDJSON]: "One ModelCall per line" },
	refusals: { ...NOT_FOUND, ...STREAMED },
});

const interventions = z
	.enum(["keep", "mask", "drop"])
	.default("keep")
	.describe("Calls after a person steered");

/** A sample on its own, ready to be trained on. */
export const RolloutSample = Sample.extend({
	rolloutId: z.string(),
	taskId: z.string(),
	groupId: z.string().nullable(),
	reward: z.number().nullable(),
}).meta({ id: "RolloutSample" });
export type RolloutSample = z.infer<typeof RolloutSample>;

export const getSamples = route({
	name: "getSamples",
	method: "get",
	path: `${API}/rollouts/{id}/samples`,
	tag,
	summary: "Training samples: one branch per line with ids, mask, logprobs and the reward",
	params: IdParams,
	query: z.object({
		untrainable: z
			.enum(["refuse", "include"])
			.default("refuse")
			.describe("What to do when the certificate says that the tokens cannot be trusted"),
		interventions,
	}),
	media: { [NDJSON]: "One RolloutSample per line" },
	refusals: {
		...NOT_FOUND,
		...STREAMED,
		409: "The rollout has not ended, or is untrainable; the detail says why",
	},
});

export const exportRollouts = route({
	name: "exportRollouts",
	method: "get",
	path: `${API}/export`,
	tag,
	summary:
		"Finished rollouts as trainers read them, oldest first, as they are read; a stream that breaks off is not whole",
	query: FilterQuery.extend({
		format: z.enum(["jsonl", "parquet", "trl", "atif", "messages", "openenv"]).default("jsonl"),
		ids: z
			.string()
			.max(10_000)
			.regex(/^[\w-]+(,[\w-]+)*$/)
			.optional()
			.describe(
				"These and no others, with commas between them; filters other than min_reward are left aside",
			),
		untrainable: z
			.enum(["skip", "include"])
			.default("skip")
			.describe("Samples of rollouts whose tokens are not proven; each row says so"),
		interventions,
	}),
	media: {
		[NDJSON]: "jsonl, trl, atif, messages, openenv: one JSON object per line",
		[PARQUET]: "parquet",
	},
	refusals: STREAMED,
});

export const getCertificate = route({
	name: "getCertificate",
	method: "get",
	path: `${API}/rollouts/{id}/certificate`,
	tag,
	summary: "What can be proven about the rollout's tokens",
	params: IdParams,
	query: z.object({ interventions }),
	reply: Certificate,
	refusals: { ...NOT_FOUND, 409: "The rollout has not ended" },
});

const FileList = z
	.object({
		files: z
			.array(z.object({ path: z.string(), sizeBytes: z.int() }))
			.describe("What the workdir held at the end"),
		blobs: z.array(z.string()).describe("Stored results, to be fetched by name"),
	})
	.meta({ id: "FileList" });

export const listFiles = route({
	name: "listFiles",
	method: "get",
	path: `${API}/rollouts/{id}/files`,
	tag,
	summary: "The files the rollout left",
	params: IdParams,
	reply: FileList,
	refusals: NOT_FOUND,
});

const BLOB_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/;

export const getBlob = route({
	name: "getBlob",
	method: "get",
	path: `${API}/rollouts/{id}/files/{name}`,
	tag,
	summary: "One stored result: files.json, diff.patch, agent.log, transcript.json, …",
	params: IdParams.extend({ name: z.string().regex(BLOB_NAME) }),
	media: { "application/octet-stream": "The bytes" },
	refusals: { 404: "No such rollout, or it left no such file" },
});

export const getFile = route({
	name: "getFile",
	method: "get",
	path: `${API}/rollouts/{id}/file`,
	tag,
	summary: "One text file of the workdir as it was at the end; small ones are kept",
	params: IdParams,
	query: z.object({ path: z.string().min(1).max(4096).describe("As in the list of files") }),
	media: { "text/plain": "The file" },
	refusals: { 404: "No such rollout, or no such file was kept" },
});

export const getDiff = route({
	name: "getDiff",
	method: "get",
	path: `${API}/rollouts/{id}/diff`,
	tag,
	summary: "What the agent changed, as a patch",
	params: IdParams,
	media: { "text/plain": "A unified diff" },
	refusals: { 404: "No such rollout, or it left no diff" },
});
