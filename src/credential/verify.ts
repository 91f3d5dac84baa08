import { isOutage, messageOf, RolloutError } from "../errors.ts";
import type { Credential, CredentialState } from "../model/credential.ts";
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

interface Verdict {
	state: CredentialState;
	reason: string | null;
	/** The provider may have refused it; when it does so again and again, it has. */
	isDoubtful?: boolean;
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
	let verdict = await decide(parts, held, signal);
	// What was put aside may be the only login that lives: nothing is lost when it takes a dead one's place.
	while (verdict.state === "dead") {
		const promoted = await credentials.promote(held.hold);
		if (promoted === null) break;
		verdict = await decide(parts, borrowed(held, promoted), signal);
	}
	await credentials.judge(held.hold, { isDoubtful: false, ...verdict });
}

/** The same hold for those who give back what they were given; its owner gives it up. */
function borrowed({ ttlMs, lost }: HeldCredential, hold: Hold): HeldCredential {
	return { hold, ttlMs, lost, [Symbol.asyncDispose]: async () => {} };
}

async function decide(parts: Verifying, held: HeldCredential, signal: AbortSignal): Promise<Verdict> {
	const { credential, secret } = held.hold;
	if (credential.planted !== null)
		return toVerdict(await parts.probeLogin(borrowed(held, held.hold), signal));
	if (credential.endpoint === null) return { state: "unknown", reason: "no endpoint is known for it" };
	await using tokens =
		credential.login === null ? null : new LoginTokens(parts.credentials, held, parts.refresher);
	try {
		const first = await ask(parts, credential, (await tokens?.fresh()) ?? secret, signal);
		if (first.end.type !== "refused" || first.end.status !== 401 || tokens === null)
			return toVerdict(first.end);
		return toVerdict((await ask(parts, credential, await tokens.fresh(first.key), signal)).end);
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

function toVerdict(end: ProbeEnd): Verdict {
	switch (end.type) {
		case "answered":
			return { state: "alive", reason: null };
		case "limited":
			return { state: "limited", reason: end.message };
		case "unclear":
			return { state: "unknown", reason: end.message };
		case "refused":
			if (end.status === 401) return { state: "dead", reason: end.message };
			return { state: "unknown", reason: end.message, isDoubtful: true };
	}
}

/** An outage is not death, and neither is running out of time. */
function toTrouble(error: unknown, signal: AbortSignal): Verdict {
	const reason = messageOf(error);
	if (error instanceof RolloutError && error.code === "credential_dead") return { state: "dead", reason };
	if (error instanceof RolloutError && error.code === "rate_limited") return { state: "limited", reason };
	if (error instanceof RolloutError || isOutage(error)) return { state: "unknown", reason };
	if (signal.aborted) return { state: "unknown", reason: "it was not answered in time" };
	throw error;
}
