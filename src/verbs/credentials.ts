import type { Config } from "../config.ts";
import { captureLogin } from "../credential/capture.ts";
import { AUTH_FILE, type LoginFiles, writeLogin } from "../credential/login.ts";
import { requirePlantable } from "../credential/planted/confine.ts";
import { UsageError } from "../errors.ts";
import { credentialOf, normaliseBaseUrl } from "../gateway/catalog.ts";
import { type Credential, CredentialLabel, type LoginTerms } from "../model/credential.ts";
import { newId } from "../model/id.ts";
import type { StoredRequest } from "../model/request.ts";
import type { Credentials, NewCredential } from "../store/credentials.ts";
import type { Store } from "../store/store.ts";
import type { CaptureRequest, Keeping, NewEndpoint } from "./verbs.ts";

/** How many rollouts may use one API key at once, unless it is said. */
const CAPACITY = 1_000;
const FREE_MS = 10_000;

/** Stored provider logins. What comes in as a secret leaves only towards its provider. */
export function keeping(store: Store, verify: (label: string) => Promise<Credential>): Keeping {
	const { credentials } = store;
	return {
		credentials: () => credentials.list(),
		credential: (label) => credentials.find(label),
		addApiKey: async ({ apiKey, capacity = CAPACITY, ...place }) => {
			const secret = requireKey(apiKey);
			return await add(credentials, { ...toPlace(place), kind: "api-key", capacity, secret });
		},
		addLogin: async ({ auth, terms, ...place }) => {
			const file = JSON.stringify({ [terms.provider]: { type: "oauth", ...auth } });
			return await addLogin(credentials, place, terms, new Map([[AUTH_FILE, Buffer.from(file)]]));
		},
		capture: async (home, options) => await capture(credentials, home, options),
		verifyCredential: async (label) =>
			(await credentials.find(label)) === null ? null : await verify(label),
		freeCredential: async (label, options) => await free(credentials, label, options),
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

async function free(
	credentials: Credentials,
	label: string,
	{ newest }: { newest: boolean },
): Promise<Credential | null> {
	if ((await credentials.find(label)) === null) return null;
	if (newest) {
		const hold = await credentials.acquire(label, `free ${newId("fr")}`, FREE_MS, { evenDead: true });
		const promoted = await credentials.promote(hold);
		await credentials.release(hold);
		if (promoted === null) throw new UsageError(`nothing of ${label} was put aside`, "nothing_quarantined");
	}
	await credentials.free(label);
	return await credentials.find(label);
}

/** Whoever takes any one of a pool has to know whether it will lie in the box. */
async function add(credentials: Credentials, credential: NewCredential): Promise<Credential> {
	const { pool, planted = null } = credential;
	const others = (await credentials.list()).filter((one) => one.pool !== null && one.pool === pool);
	if (others.some((one) => (one.planted === null) !== (planted === null)))
		throw new UsageError(
			`the pool ${pool} holds ${planted === null ? "logins that are planted" : "what the gateway carries"}: take another`,
			"mixed_pool",
		);
	return await credentials.add(credential);
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
	return add(credentials, { ...toPlace(place), kind: "login", capacity: 1, login, secret });
}

async function capture(
	credentials: Credentials,
	home: string,
	{ tokenUrl, clientId, plugins, hosts, ...asked }: CaptureRequest,
): Promise<Credential> {
	const { provider, model, entry, files, ...found } = await captureLogin(home, {
		model: asked.model,
		plugins,
	});
	if (hosts !== undefined) {
		if (entry.type === "api")
			throw new UsageError("an API key need not lie in a box: store it without --plant", "capture_refused");
		const planted = { provider, model, hosts: hosts.map(requireHost) };
		const named = { label: requireLabel(asked.label), pool: poolOf(asked) };
		const secret = writeLogin(files);
		return await add(credentials, { ...named, kind: "login", endpoint: null, planted, capacity: 1, secret });
	}
	const baseUrl = asked.baseUrl ?? found.baseUrl;
	if (baseUrl === null)
		throw new UsageError(
			`where are ${provider}'s models? Its settings do not say: give --base-url`,
			"capture_refused",
		);
	const place = { ...asked, baseUrl, model };
	if (entry.type === "api") {
		const secret = requireKey(entry.key);
		return await add(credentials, { ...toPlace(place), kind: "api-key", capacity: CAPACITY, secret });
	}
	if (tokenUrl === undefined)
		throw new UsageError(
			`${provider}'s tokens rotate: give --token-url (and --client-id), so that they can be refreshed outside every box; or, if only the agent can speak for it, --plant <its hosts>`,
			"capture_refused",
		);
	return await addLogin(credentials, place, { provider, tokenUrl, clientId: clientId ?? null }, files);
}

function toPlace({ label, pool, baseUrl, model, dialect = "auto" }: NewEndpoint) {
	const endpoint = { baseUrl: normaliseBaseUrl(baseUrl, "base_url"), model, dialect };
	return { label: requireLabel(label), pool: poolOf({ pool }), endpoint };
}

function poolOf({ pool }: Pick<NewEndpoint, "pool">): string | null {
	return pool === undefined ? null : requireLabel(pool);
}

/** A name, not an address and not a pattern: a login goes where somebody has decided it may go. */
function requireHost(host: string): string {
	if (/^(?=.{1,253}(:\d{1,5})?$)[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z][a-z0-9-]*(:\d{1,5})?$/.test(host))
		return host;
	throw new UsageError(
		`${host} is no name of a host, as in api.acme.example or api.acme.example:8443`,
		"bad_planting",
	);
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
	requests: readonly StoredRequest[],
	store: Store,
	env: Config["env"],
): Promise<void> {
	const asking = requests.filter(({ endpoint }) => credentialOf(endpoint) !== null);
	if (asking.length === 0) return;
	const stored = await store.credentials.list();
	for (const request of asking) requireAsked(request, stored, env);
}

function requireAsked(request: StoredRequest, stored: readonly Credential[], env: Config["env"]): void {
	const { type, name } = credentialOf(request.endpoint)!;
	if (type === "resolve") {
		if (env.PADDOCK_CREDENTIAL_RESOLVER) return;
		throw new UsageError("PADDOCK_CREDENTIAL_RESOLVER is not set on the server", "credential_unresolved");
	}
	const found = stored.filter(({ label, pool }) => (type === "pool" ? pool : label) === name);
	if (found.some(({ planted }) => planted !== null)) requirePlantable(request);
	if (found.some(({ state }) => state !== "dead" && state !== "quarantined")) return;
	if (found.some(({ state }) => state === "quarantined"))
		throw new UsageError(
			`the credential ${name} is quarantined: verify it, or free it`,
			"credential_quarantined",
		);
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
