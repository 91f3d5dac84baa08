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

/** The store, or what it rests on, cannot be reached for now: nothing is wrong with what was asked. */
export class OutageError extends Error {
	override readonly name = "OutageError";
}

const PASSING = new Set([
	...["ECONNREFUSED", "ECONNRESET", "ECONNABORTED", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"],
	...["EAI_AGAIN", "ENOSPC", "EDQUOT"],
]);

/** Something does not answer or the disk is full: later the same may work. Each store says so of its own troubles. */
export function isOutage(error: unknown): boolean {
	if (!(error instanceof Error)) return false;
	if (error instanceof OutageError) return true;
	if (error instanceof SuppressedError) return isOutage(error.error) || isOutage(error.suppressed);
	const { code, syscall } = error as { code?: unknown; syscall?: unknown };
	return syscall === "connect" || (typeof code === "string" && PASSING.has(code)) || isOutage(error.cause);
}
