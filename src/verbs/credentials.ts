import type { Config } from "../config.ts";
import { captureLogin } from "../credential/capture.ts";
import { AUTH_FILE, type LoginFiles, writeLogin } from "../credential/login.ts";
import { UsageError } from "../errors.ts";
import { type CredentialAsk, credentialOf, normaliseBaseUrl } from "../gateway/catalog.ts";
import { type Credential, CredentialLabel, type LoginTerms } from "../model/credential.ts";
import type { RolloutRequest } from "../model/request.ts";
import type { Credentials } from "../store/credentials.ts";
import type { Store } from "../store/store.ts";
import type { CaptureRequest, Keeping, NewEndpoint } from "./verbs.ts";

/** How many rollouts may use one API key at once, unless it is said. */
const CAPACITY = 1_000;

/** Stored provider logins. What comes in as a secret leaves only towards its provider. */
export function keeping(store: Store, verify: (label: string) => Promise<Credential>): Keeping {
	const { credentials } = store;
	return {
		credentials: () => credentials.list(),
		credential: (label) => credentials.find(label),
		addApiKey: async ({ apiKey, capacity = CAPACITY, ...place }) => {
			const secret = requireKey(apiKey);
			return await credentials.add({ ...toPlace(place), kind: "api-key", capacity, secret });
		},
		addLogin: async ({ auth, terms, ...place }) => {
			const file = JSON.stringify({ [terms.provider]: { type: "oauth", ...auth } });
			return await addLogin(credentials, place, terms, new Map([[AUTH_FILE, Buffer.from(file)]]));
		},
		capture: async (home, options) => await capture(credentials, home, options),
		verifyCredential: async (label) =>
			(await credentials.find(label)) === null ? null : await verify(label),
		removeCredential: (label, options) => credentials.remove(label, options),
		async purgeCredentials({ pool, force }) {
			const isMeant = (one: Credential) => (pool === undefined ? one.state === "dead" : one.pool === pool);
			const report = { removed: [] as string[], inUse: [] as string[] };
			for (const { label } of (await credentials.list()).filter(isMeant)) {
				const fate = (await isRemoved(credentials, label, force)) ? report.removed : report.inUse;
				fate.push(label);
			}
			return report;
		},
		rotateKey: () => store.rotateKey(),
	};
}

/** False when it is in use. */
async function isRemoved(credentials: Credentials, label: string, force: boolean): Promise<boolean> {
	try {
		await credentials.remove(label, { force });
		return true;
	} catch (error) {
		if (error instanceof UsageError && error.code === "credential_held") return false;
		throw error;
	}
}

function addLogin(
	credentials: Credentials,
	place: NewEndpoint,
	terms: LoginTerms,
	files: LoginFiles,
): Promise<Credential> {
	const login = { ...terms, tokenUrl: requireTokenUrl(terms.tokenUrl) };
	const secret = writeLogin(files);
	// A token that rotates is one holder's: two would spend it twice.
	return credentials.add({ ...toPlace(place), kind: "login", capacity: 1, login, secret });
}

async function capture(
	credentials: Credentials,
	home: string,
	{ tokenUrl, clientId, plugins, ...asked }: CaptureRequest,
): Promise<Credential> {
	const { provider, model, entry, files, ...found } = await captureLogin(home, {
		model: asked.model,
		plugins,
	});
	const baseUrl = asked.baseUrl ?? found.baseUrl;
	if (baseUrl === null)
		throw new UsageError(
			`where are ${provider}'s models? Its settings do not say: give --base-url`,
			"capture_refused",
		);
	const place = { ...asked, baseUrl, model };
	if (entry.type === "api") {
		const secret = requireKey(entry.key);
		return await credentials.add({ ...toPlace(place), kind: "api-key", capacity: CAPACITY, secret });
	}
	if (tokenUrl === undefined)
		throw new UsageError(
			`${provider}'s tokens rotate: give --token-url (and --client-id), so that they can be refreshed outside every box`,
			"capture_refused",
		);
	return await addLogin(credentials, place, { provider, tokenUrl, clientId: clientId ?? null }, files);
}

function toPlace({ label, pool, baseUrl, model, dialect = "auto" }: NewEndpoint) {
	const endpoint = { baseUrl: normaliseBaseUrl(baseUrl, "base_url"), model, dialect };
	return { label: requireLabel(label), pool: pool === undefined ? null : requireLabel(pool), endpoint };
}

function requireLabel(label: string): string {
	const parsed = CredentialLabel.safeParse(label);
	if (parsed.success) return label;
	throw new UsageError(`a label is made of ${parsed.error.issues[0]!.message}`, "bad_label");
}

/** A refresh token travels there: over TLS, or on this machine. */
function requireTokenUrl(text: string): string {
	const url = URL.parse(text);
	const isHere = url?.protocol === "http:" && /^(localhost|127\.|\[::1\])/.test(url.host);
	if (url !== null && (url.protocol === "https:" || isHere) && url.username === "" && url.hash === "")
		return url.href;
	throw new UsageError("the token URL must be an https:// address", "bad_token_url");
}

/** Refused before anything is stored: a rollout that names a credential which is not there could only fail. */
export async function requireCredentials(
	requests: readonly RolloutRequest[],
	store: Store,
	env: Config["env"],
): Promise<void> {
	const asks = requests.flatMap(({ endpoint }) => credentialOf(endpoint) ?? []);
	if (asks.length === 0) return;
	const stored = await store.credentials.list();
	for (const ask of asks) requireAsked(ask, stored, env);
}

function requireAsked(
	{ type, name }: CredentialAsk,
	stored: readonly Credential[],
	env: Config["env"],
): void {
	if (type === "resolve") {
		if (env.PADDOCK_CREDENTIAL_RESOLVER) return;
		throw new UsageError("PADDOCK_CREDENTIAL_RESOLVER is not set on the server", "credential_unresolved");
	}
	const found = stored.filter(({ label, pool }) => (type === "pool" ? pool : label) === name);
	if (found.some(({ state }) => state !== "dead")) return;
	if (found.length > 0)
		throw new UsageError(`the credential ${name} is dead: its provider refused it`, "credential_dead");
	if (type === "pool") throw new UsageError(`no credential is in the pool ${name}`, "unknown_pool");
	throw new UsageError(`there is no credential ${name}`, "unknown_credential");
}

/** One line, as a provider hands it out; the message never repeats it. */
function requireKey(text: string): string {
	const key = text.trim();
	if (key === "") throw new UsageError("the key is empty", "bad_api_key");
	if (/^[\x21-\x7e]{8,4096}$/.test(key)) return key;
	throw new UsageError(
		"the key must be one line of 8 to 4096 plain ASCII characters without spaces",
		"bad_api_key",
	);
}
