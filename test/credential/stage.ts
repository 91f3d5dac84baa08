import { type HoldClocks, holdCredential } from "../../src/credential/hold.ts";
import { readLogin, tokensOf, writeLogin } from "../../src/credential/login.ts";
import type { Credential } from "../../src/model/credential.ts";
import type { NewCredential } from "../../src/store/credentials.ts";
import type { Store } from "../../src/store/store.ts";
import type { OauthProvider } from "../fakes/oauth-provider.ts";

/** A login at the provider, as a credential to be stored. */
export function loginAt(
	provider: OauthProvider,
	label: string,
	more: Partial<NewCredential> = {},
): NewCredential {
	const { baseUrl, tokenUrl, clientId } = provider;
	return {
		...{ label, kind: "login", capacity: 1 },
		endpoint: { baseUrl, model: "model", dialect: "plain" },
		login: { provider: "acme", tokenUrl, clientId },
		secret: writeLogin(provider.login("acme")),
		...more,
	};
}

export function addLogin(
	store: Store,
	provider: OauthProvider,
	label: string,
	more: Partial<NewCredential> = {},
): Promise<Credential> {
	return store.credentials.add(loginAt(provider, label, more));
}

/** The refresh token that is stored now. */
export async function storedRefresh(store: Store, label: string, clocks?: HoldClocks): Promise<string> {
	await using held = await holdCredential(store.credentials, label, "look", {
		...(clocks ? { clocks } : {}),
		evenDead: true,
	});
	const { credential, secret } = held.hold;
	return tokensOf(readLogin(secret), (credential.login ?? credential.planted)!.provider).refresh;
}
