import type { Boundary, Failure } from "./model/failure.ts";

/**
 * The one class for "something crossed a boundary and broke". Results (non-zero exit, reward 0, a limit reached)
 * are data, not errors; anything else that is thrown is a bug and is recorded as `unclassified`.
 */
export class RolloutError extends Error {
	override readonly name = "RolloutError";
	readonly boundary: Boundary;
	readonly code: string;
	readonly retryable: boolean;

	constructor(
		boundary: Boundary,
		code: string,
		message: string,
		options: { retryable?: boolean; cause?: unknown } = {},
	) {
		super(message, options.cause === undefined ? undefined : { cause: options.cause });
		this.boundary = boundary;
		this.code = code;
		this.retryable = options.retryable ?? false;
	}
}

/** What the caller asked for cannot be: one clear sentence, exit code 2 on the command line, 4xx over HTTP. */
export class UsageError extends Error {
	override readonly name = "UsageError";
	readonly code: string;

	constructor(message: string, code = "bad_request") {
		super(message);
		this.code = code;
	}
}

/** Runs `fn`; whatever it throws leaves classified. An already classified error passes through unchanged. */
export async function within<T>(
	boundary: Boundary,
	code: string,
	fn: () => Promise<T>,
	options: { retryable?: boolean } = {},
): Promise<T> {
	try {
		return await fn();
	} catch (error) {
		if (error instanceof RolloutError || isAbort(error)) throw error;
		throw new RolloutError(boundary, code, messageOf(error), { ...options, cause: error });
	}
}

export function toFailure(error: unknown): Failure {
	if (error instanceof RolloutError) {
		const { boundary, code, message, retryable } = error;
		return { boundary, code, message, retryable };
	}
	return { boundary: "agent", code: "unclassified", message: messageOf(error), retryable: false };
}

export function messageOf(error: unknown): string {
	if (error instanceof SuppressedError) return messageOf(error.error);
	// Several addresses of one host, none of which answered: the first says enough.
	if (error instanceof AggregateError && error.message === "") return messageOf(error.errors[0]);
	if (typeof error === "object" && error !== null && "message" in error) return String(error.message);
	return String(error);
}

export function isAbort(error: unknown): boolean {
	return error instanceof Error && error.name === "AbortError";
}

/** PostgreSQL's classes of trouble that passes: connections, resources, an operator's hand, a conflict that was undone. */
const PASSING_SQL = /^(08|53|57P|40001|40P01|25006)/;
const PASSING_SYSTEM = new Set([
	...["ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"],
	...["EAI_AGAIN", "ENOSPC", "EDQUOT"],
]);
/** SQLite's own numbers: busy, locked, input or output, full. */
const PASSING_SQLITE = new Set([5, 6, 10, 13]);
/** What PostgreSQL's driver says, without a code, of a query that got no answer in time. */
export const READ_TIMEOUT = "Query read timeout";
const PASSING_WORDS =
	/^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error)/;

/** The database does not answer or the disk is full: nothing is wrong with what was asked, and later it may work. */
export function isOutage(error: unknown): boolean {
	if (!(error instanceof Error)) return false;
	if (error instanceof SuppressedError) return isOutage(error.error) || isOutage(error.suppressed);
	const { code, errcode, syscall } = error as { code?: unknown; errcode?: unknown; syscall?: unknown };
	if (syscall === "connect") return true;
	if (typeof code === "string" && (PASSING_SYSTEM.has(code) || PASSING_SQL.test(code))) return true;
	// The low byte is the kind; the rest says more.
	if (typeof errcode === "number") return PASSING_SQLITE.has(errcode & 0xff);
	return error.message === READ_TIMEOUT || PASSING_WORDS.test(error.message) || isOutage(error.cause);
}
