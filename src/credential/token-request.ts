import { z } from "zod";
import { messageOf, OutageError } from "../errors.ts";
import type { LoginTerms } from "../model/credential.ts";
import type { OauthEntry } from "./login.ts";

/** How long a provider may take. Far less than a refresh keeps the credential to itself. */
const ANSWER_MS = 20_000;
const MAX_ANSWER_BYTES = 256 * 1024;
/** Tokens without a lifetime are taken for short-lived ones. */
const LIFETIME_S = 600;

const Granted = z.looseObject({
	access_token: z.string().min(1),
	refresh_token: z.string().min(1).optional(),
	expires_in: z.coerce.number().positive().optional(),
});
const Denied = z.looseObject({ error: z.string() });

/** The provider knows these tokens no longer: only a new login helps. */
export class TokensRefused extends Error {
	override readonly name = "TokensRefused";
}

/** The provider asks for patience. */
export class TokensLimited extends Error {
	override readonly name = "TokensLimited";
}

/**
 * Trades the refresh token for new ones (RFC 6749, section 6). Whoever calls this has made sure that nobody else can do the
 * same with the same token, and stores the answer before anything else: at many providers the old token is dead now.
 */
export async function requestTokens(terms: LoginTerms, tokens: OauthEntry): Promise<OauthEntry> {
	const { status, text } = await post(terms, tokens.refresh);
	if (status === 200) return toEntry(tokens, text);
	const denied = Denied.safeParse(parse(text)).data?.error ?? "";
	if (status === 429) throw new TokensLimited(`the token endpoint answered 429`);
	if (
		(status === 400 || status === 401) &&
		/^(invalid_grant|invalid_client|unauthorized_client)$/.test(denied)
	)
		throw new TokensRefused(`the token endpoint answered ${denied}: log in again`);
	throw new OutageError(`the token endpoint answered ${status}`);
}

async function post(terms: LoginTerms, refresh: string): Promise<{ status: number; text: string }> {
	const form = new URLSearchParams({ grant_type: "refresh_token", refresh_token: refresh });
	if (terms.clientId !== null) form.set("client_id", terms.clientId);
	try {
		const response = await fetch(terms.tokenUrl, {
			method: "POST",
			headers: { "content-type": "application/x-www-form-urlencoded", accept: "application/json" },
			body: form.toString(),
			// A token goes where it was told to go, and nowhere from there.
			redirect: "error",
			signal: AbortSignal.timeout(ANSWER_MS),
		});
		return { status: response.status, text: await readSome(response) };
	} catch (error) {
		throw new OutageError(`the token endpoint cannot be reached: ${causeOf(error)}`);
	}
}

async function readSome(response: Response): Promise<string> {
	const chunks: Uint8Array[] = [];
	let size = 0;
	for await (const chunk of response.body ?? []) {
		size += chunk.length;
		if (size > MAX_ANSWER_BYTES) throw new Error(`its answer is longer than ${MAX_ANSWER_BYTES} bytes`);
		chunks.push(chunk);
	}
	return Buffer.concat(chunks).toString("utf8");
}

/** A provider that hands out no new refresh token means the old one to be kept. */
function toEntry(before: OauthEntry, text: string): OauthEntry {
	const granted = Granted.safeParse(parse(text));
	if (!granted.success) throw new OutageError("the token endpoint's answer holds no token");
	const { access_token, refresh_token = before.refresh, expires_in = LIFETIME_S } = granted.data;
	return { ...before, access: access_token, refresh: refresh_token, expires: Date.now() + expires_in * 1000 };
}

function parse(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}

function causeOf(error: unknown): string {
	return messageOf(error instanceof Error && error.cause !== undefined ? error.cause : error);
}
