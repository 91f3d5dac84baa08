import { RolloutError } from "../../errors.ts";
import type { Failure } from "../../model/failure.ts";

/** The engine, or the way to it, broke its word. Stays inside the gateway; leaves as a Failure. */
export class UpstreamFault extends Error {
	override readonly name = "UpstreamFault";
	readonly code: string;
	readonly status: number | null;
	readonly retryable: boolean;
	/** What the engine asked us to wait, unclamped. */
	readonly retryAfterMs: number | null;

	constructor(
		code: string,
		message: string,
		options: { status?: number; retryable?: boolean; retryAfterMs?: number | null } = {},
	) {
		super(message);
		this.code = code;
		this.status = options.status ?? null;
		this.retryable = options.retryable ?? true;
		this.retryAfterMs = options.retryAfterMs ?? null;
	}

	/** The same without a secret: endpoints like to quote the key they refuse. */
	without(secret: string | undefined): UpstreamFault {
		if (!secret || !this.message.includes(secret)) return this;
		const { status, retryable, retryAfterMs } = this;
		const options = { retryable, retryAfterMs, ...(status === null ? {} : { status }) };
		return new UpstreamFault(this.code, this.message.replaceAll(secret, "[key]"), options);
	}

	toFailure(): Failure {
		return { boundary: "provider", code: this.code, message: this.message, retryable: this.retryable };
	}
}

const OVERFLOW =
	/context[_ -]?(length|window)|maximum (context|model|input|prompt)|(prompt|input) (is )?too long|too many (input )?tokens|reduce the length|max_tokens must be at least 1/i;

/** An error answer → what it means for the rollout. */
export function faultOfStatus(status: number, text: string, retryAfterMs: number | null): UpstreamFault {
	const message = `the model endpoint answered ${status}: ${summary(text)}`;
	if (status === 429) return new UpstreamFault("rate_limited", message, { status, retryAfterMs });
	if (status === 401 || status === 403) return final("provider_auth", message, status);
	if (status === 413 || (status < 500 && OVERFLOW.test(text)))
		return final("context_overflow", message, status);
	if (status === 408 || status >= 500)
		return new UpstreamFault("provider_error", message, { status, retryAfterMs });
	return final("provider_rejected", message, status);
}

function final(code: string, message: string, status: number): UpstreamFault {
	return new UpstreamFault(code, message, { status, retryable: false });
}

/** A fault, or a transport error → what it means; null for anything else, which is a bug of ours. */
export function faultOfError(error: unknown, hasAnswered: boolean): UpstreamFault | null {
	if (error instanceof UpstreamFault) return error;
	// The login that pays for the call has troubles of its own.
	if (error instanceof RolloutError && error.boundary === "provider")
		return new UpstreamFault(error.code, error.message, { retryable: error.retryable });
	// Every error of a socket, of TLS and of undici has a code.
	if (!(error instanceof Error) || !("code" in error) || error instanceof TypeError) return null;
	const code = String(error.code);
	if (code === "UND_ERR_HEADERS_TIMEOUT")
		return new UpstreamFault(
			"provider_hang",
			"the model endpoint accepted the request and did not answer in time",
		);
	if (code === "UND_ERR_BODY_TIMEOUT")
		return new UpstreamFault("provider_hang", "the model endpoint fell silent in the middle of its answer");
	if (hasAnswered)
		return new UpstreamFault("provider_truncated", `the model endpoint broke off its answer (${code})`);
	return new UpstreamFault("provider_unreachable", `the model endpoint cannot be reached (${code})`);
}

/** The human part of an error body, short. */
function summary(text: string): string {
	const trimmed = text.replace(/\s+/g, " ").trim();
	return trimmed === "" ? "(no text)" : trimmed.slice(0, 500);
}
