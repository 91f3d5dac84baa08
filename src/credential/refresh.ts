import { setTimeout as delay } from "node:timers/promises";
import { UsageError } from "../errors.ts";
import type { Claim, Credentials, Hold } from "../store/credentials.ts";
import { type OauthEntry, readLogin, tokensOf, withTokens, writeLogin } from "./login.ts";
import { requestTokens, TokensRefused } from "./token-request.ts";

/** A store that stays away for longer than this has more to lose than a login. */
export const SAVE_PATIENCE_MS = 15 * 60_000;
/** From the provider's answer to the stored token nobody else may have it: longer than both can take. */
const REFRESH_MS = SAVE_PATIENCE_MS + 60_000;
const SAVE_AGAIN_MS = 250;

export interface RefreshOrder extends Claim {
	/** The access token that the holder has no more use for; when another is stored already, nothing is to be done. */
	stale: string;
	/** How long the hold lasts when this is done. */
	ttlMs: number;
}

/**
 * From the token that is stored to the new one that is stored. Between the two the newest token exists nowhere else, so
 * the hold is made long first, and saving is tried until it is done.
 */
export async function refreshLogin(credentials: Credentials, order: RefreshOrder): Promise<void> {
	const hold = await credentials.look(order);
	if (hold === null || !(await credentials.renew(hold, REFRESH_MS))) throw lost(order.label);
	const terms = hold.credential.login;
	if (terms === null) throw new UsageError(`${order.label} is no login`, "login_unreadable");
	try {
		const files = readLogin(hold.secret);
		const tokens = tokensOf(files, terms.provider);
		if (tokens.access !== order.stale) return;
		const fresh = await requestTokens(terms, tokens);
		await saveAtLast(credentials, hold, writeLogin(withTokens(files, terms.provider, fresh)));
	} catch (error) {
		if (error instanceof TokensRefused)
			await credentials.judge(hold, { state: "dead", reason: error.message, isDoubtful: false });
		throw error;
	} finally {
		await credentials.renew(hold, order.ttlMs, { exact: true });
	}
}

/** The tokens that a hold stands for now. */
export function tokensIn(hold: Hold): OauthEntry {
	return tokensOf(readLogin(hold.secret), hold.credential.login!.provider);
}

async function saveAtLast(credentials: Credentials, hold: Hold, secret: string): Promise<void> {
	const until = performance.now() + SAVE_PATIENCE_MS;
	for (;;) {
		try {
			if (await isSaved(credentials, hold, secret)) return;
			// The old tokens are spent: these may be the only ones that live.
			await credentials.quarantine(hold, secret, "it was refreshed for a holder that had lost it meanwhile");
			throw lost(hold.credential.label);
		} catch (error) {
			// Whatever ails the store, a full disk included: these tokens exist nowhere else.
			if (error instanceof UsageError || performance.now() > until) throw error;
		}
		await delay(SAVE_AGAIN_MS);
	}
}

/** Of a save whose answer got lost on the way, the second try finds its own work. */
async function isSaved(credentials: Credentials, hold: Hold, secret: string): Promise<boolean> {
	if ((await credentials.save(hold, secret)) !== null) return true;
	const { credential, holder, fence } = hold;
	return (await credentials.look({ label: credential.label, holder, fence }))?.secret === secret;
}

function lost(label: string): UsageError {
	return new UsageError(`the hold on ${label} was lost to another`, "credential_lost");
}
