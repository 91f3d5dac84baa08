import { isOutage, messageOf, RolloutError } from "../errors.ts";
import type { Credential, CredentialState, Finding } from "../model/credential.ts";
import { untilTimeout } from "../model/duration.ts";
import type { Endpoint } from "../model/endpoint.ts";
import type { Credentials, Hold } from "../store/credentials.ts";
import { type HeldCredential, holdCredential } from "./hold.ts";
import type { Refresher } from "./refresher/refresher.ts";
import { LoginTokens } from "./tokens.ts";

const LIMIT_MS = 180_000;

/** What a model said to a question whose answer is not in the question. */
export type ProbeEnd =
	| { type: "answered" }
	/** 401: the key is not good. 403: something on the way may have said so. */
	| { type: "refused"; status: number; message: string }
	| { type: "limited"; message: string }
	| { type: "unclear"; message: string };

export interface Verifying {
	credentials: Credentials;
	refresher: Refresher;
	/** Lets the agent itself ask it, with the login in a box of its own; whatever came of it, new tokens are stored. */
	probeLogin(held: HeldCredential, signal: AbortSignal): Promise<ProbeEnd>;
	/** Asks the model one small question. */
	probe(endpoint: Pick<Endpoint, "baseUrl" | "model" | "apiKey">, signal: AbortSignal): Promise<ProbeEnd>;
}

/**
 * Asks the provider whether the credential is good, under a hold of its own. Tokens that have to be refreshed for that are
 * stored before they are tried, so nothing is lost whatever the answer. Throws a UsageError when it is in use, or not there.
 */
export async function verifyCredential(
	parts: Verifying,
	label: string,
	limitMs = LIMIT_MS,
): Promise<Credential> {
	await judge(parts, label, limitMs);
	return (await parts.credentials.find(label))!;
}

async function judge(parts: Verifying, label: string, limitMs: number): Promise<void> {
	const { credentials } = parts;
	await using held = await holdCredential(credentials, label, "verify", { evenDead: true });
	const signal = untilTimeout(limitMs, held.lost);
	let finding = await decide(parts, held, signal);
	// What was put aside may be the only login that lives: nothing is lost when it takes a dead one's place.
	while (finding.state === "dead") {
		const promoted = await credentials.promote(held.hold);
		if (promoted === null) break;
		finding = await decide(parts, borrowed(held, promoted), signal);
	}
	await credentials.judge(held.hold, finding);
}

/** The same hold for those who give back what they were given; its owner gives it up. */
function borrowed({ ttlMs, lost }: HeldCredential, hold: Hold): HeldCredential {
	return { hold, ttlMs, lost, [Symbol.asyncDispose]: async () => {} };
}

async function decide(parts: Verifying, held: HeldCredential, signal: AbortSignal): Promise<Finding> {
	const { credential, secret } = held.hold;
	if (credential.planted !== null)
		return toFinding(await parts.probeLogin(borrowed(held, held.hold), signal));
	if (credential.endpoint === null) return found("unknown", "no endpoint is known for it");
	await using tokens =
		credential.login === null ? null : new LoginTokens(parts.credentials, held, parts.refresher);
	try {
		const first = await ask(parts, credential, (await tokens?.fresh()) ?? secret, signal);
		if (first.end.type !== "refused" || first.end.status !== 401 || tokens === null)
			return toFinding(first.end);
		return toFinding((await ask(parts, credential, await tokens.fresh(first.key), signal)).end);
	} catch (error) {
		return toTrouble(error, signal);
	}
}

async function ask(
	{ probe }: Verifying,
	{ endpoint }: Credential,
	key: string,
	signal: AbortSignal,
): Promise<{ key: string; end: ProbeEnd }> {
	const { baseUrl, model } = endpoint!;
	return { key, end: await probe({ baseUrl, model, apiKey: key }, signal) };
}

function toFinding(end: ProbeEnd): Finding {
	switch (end.type) {
		case "answered":
			return found("alive", null);
		case "limited":
			return found("limited", end.message);
		case "unclear":
			return found("unknown", end.message);
		case "refused":
			return end.status === 401
				? found("dead", end.message)
				: { ...found("unknown", end.message), isDoubtful: true };
	}
}

/** An outage is not death, and neither is running out of time. */
function toTrouble(error: unknown, signal: AbortSignal): Finding {
	const reason = messageOf(error);
	if (error instanceof RolloutError && error.code === "credential_dead") return found("dead", reason);
	if (error instanceof RolloutError && error.code === "rate_limited") return found("limited", reason);
	if (error instanceof RolloutError || isOutage(error)) return found("unknown", reason);
	if (signal.aborted) return found("unknown", "it was not answered in time");
	throw error;
}

function found(state: CredentialState, reason: string | null): Finding {
	return { state, reason, isDoubtful: false };
}
