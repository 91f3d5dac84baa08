import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { ZodError, z } from "zod";
import type { Problem } from "../api/problem.ts";
import { isOutage, RolloutError, UsageError } from "../errors.ts";
import type { Log } from "../log.ts";
import "../model/unknown-keys.ts";

/** Thrown by a handler that knows its status. */
export class ProblemError extends Error {
	override readonly name = "ProblemError";
	readonly problem: Problem;
	readonly headers: Record<string, string>;

	constructor(status: number, code: string, detail: string, headers: Record<string, string> = {}) {
		super(detail);
		this.problem = toProblem(status, code, detail);
		this.headers = headers;
	}
}

export function notFound(what: string, id: string): ProblemError {
	return new ProblemError(404, "not_found", `no ${what} has the id ${id}`);
}

const TITLES: Record<number, string> = {
	400: "Bad request",
	401: "Unauthorized",
	403: "Forbidden",
	404: "Not found",
	409: "Conflict",
	413: "Body too large",
	415: "Unsupported media type",
	422: "Invalid request",
	429: "Too many requests",
	500: "Internal error",
	502: "Bad gateway",
	503: "Unavailable",
};

export function toProblem(
	status: number,
	code: string,
	detail: string,
	issues?: { path: string; message: string }[],
): Problem {
	const title = TITLES[status] ?? "Error";
	return { type: `urn:paddock:${code}`, title, status, code, detail, ...(issues ? { issues } : {}) };
}

export function problemResponse(problem: Problem, headers: Record<string, string> = {}): Response {
	return new Response(JSON.stringify(problem), {
		status: problem.status as ContentfulStatusCode,
		headers: { ...headers, "content-type": "application/problem+json" },
	});
}

/** A request that does not fit its schema. The input itself is never repeated: it may hold a key. */
export function invalid(target: string, error: ZodError): Response {
	// What is missing is often only misspelt: the unknown key tells more.
	const isUnknown = (issue: z.core.$ZodIssue) => Number(issue.code === "unrecognized_keys");
	const byTelling = error.issues.slice(0, 200).sort((one, other) => isUnknown(other) - isUnknown(one));
	const issues = byTelling.slice(0, 20).map((issue) => ({
		path: [target === "json" ? "body" : target, ...issue.path.map(String)].join("."),
		message: issue.message.slice(0, 300),
	}));
	const first = issues[0];
	const detail = first ? `${first.path}: ${first.message}` : "the request does not fit its schema";
	return problemResponse(toProblem(422, "invalid_request", detail, issues));
}

/** How the refusals of verbs look over HTTP; any other is a 400. */
const USAGE_STATUS: Record<string, number> = {
	not_found: 404,
	conflict: 409,
	idempotency_conflict: 409,
	credential_exists: 409,
	credential_held: 409,
	credential_quarantined: 409,
	nothing_quarantined: 409,
	planting_refused: 422,
	rollout_ended: 409,
	conversation_closed: 409,
	conversation_open: 409,
	api_key_needed: 422,
	driver_refused: 422,
	folder_refused: 422,
	folder_unsupported: 422,
	box_needed: 422,
	host_agents_refused: 403,
	unknown_host: 404,
	unknown_agent: 404,
	agent_exists: 409,
	agent_kept: 409,
	agent_revoked: 409,
	submission_too_large: 413,
	bad_text: 422,
	name_reserved: 422,
	above_queue_limit: 422,
	image_folder_refused: 422,
	internet_refused: 422,
	queue_full: 429,
};
const RETRY_AFTER_S = 10;

/** The one place where an error becomes a response. */
export function toErrorResponse(error: unknown, context: Context, log: Log): Response {
	if (error instanceof ProblemError) return problemResponse(error.problem, error.headers);
	if (error instanceof UsageError) {
		const status = USAGE_STATUS[error.code] ?? 400;
		const headers = status === 429 ? { "retry-after": String(RETRY_AFTER_S) } : {};
		return problemResponse(toProblem(status, error.code, error.message), headers);
	}
	if (error instanceof HTTPException) return problemResponse(ofHttpException(error));
	if (error instanceof RolloutError) {
		const status = error.boundary === "task" ? 422 : 503;
		log.warn({ err: error, path: context.req.path }, "request failed");
		return problemResponse(toProblem(status, error.code, error.message));
	}
	if (isOutage(error)) {
		log.error({ err: error, path: context.req.path }, "the store does not answer");
		const detail = "the database does not answer, or the disk is full; try again";
		return problemResponse(toProblem(503, "store_unavailable", detail), { "retry-after": "2" });
	}
	if (isFloodOfIssues(error))
		return problemResponse(
			toProblem(422, "invalid_request", "more is wrong with the body than can be listed"),
		);
	log.error({ err: error, method: context.req.method, path: context.req.path }, "bug in a request");
	return problemResponse(toProblem(500, "internal", "this is a bug on our side; the server's log has it"));
}

/** zod hands on what it found as arguments of one call; hundreds of thousands of them are more than a call can have. */
function isFloodOfIssues(error: unknown): boolean {
	return error instanceof RangeError && /\/zod\//.test(error.stack?.split("\n")[1] ?? "");
}

const HTTP_CODES: Record<number, [code: string, detail: string]> = {
	400: ["malformed_json", "the body is not valid JSON"],
	413: ["body_too_large", "the body is larger than this server takes"],
	415: ["unsupported_media_type", "send the body as application/json"],
};

function ofHttpException(error: HTTPException): Problem {
	const [code, detail] = HTTP_CODES[error.status] ?? ["http_error", error.message];
	return toProblem(error.status, code, detail);
}
