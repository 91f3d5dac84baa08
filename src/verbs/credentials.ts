import { UsageError } from "../errors.ts";
import { credentialOf, normaliseBaseUrl } from "../gateway/catalog.ts";
import { CredentialLabel } from "../model/credential.ts";
import type { RolloutRequest } from "../model/request.ts";
import type { Store } from "../store/store.ts";
import type { Keeping } from "./verbs.ts";

/** How many rollouts may use one API key at once, unless it is said. */
const CAPACITY = 1_000;

/** Stored provider logins. What comes in as a secret leaves only towards its provider. */
export function keeping(store: Store): Keeping {
	const { credentials } = store;
	return {
		credentials: () => credentials.list(),
		credential: (label) => credentials.find(label),
		async addApiKey({ label, apiKey, baseUrl, model, dialect = "auto", capacity = CAPACITY }) {
			const parsed = CredentialLabel.safeParse(label);
			if (!parsed.success) {
				throw new UsageError(`a label is made of ${parsed.error.issues[0]!.message}`, "bad_label");
			}
			const secret = requireKey(apiKey);
			const endpoint = { baseUrl: normaliseBaseUrl(baseUrl, "base_url"), model, dialect };
			return await credentials.add({ label, kind: "api-key", endpoint, capacity, secret });
		},
		removeCredential: (label, options) => credentials.remove(label, options),
		rotateKey: () => store.rotateKey(),
	};
}

/** Refused before anything is stored: a rollout that names a credential which is not there could only fail. */
export async function requireCredentials(requests: readonly RolloutRequest[], store: Store): Promise<void> {
	const labels = new Set(requests.flatMap(({ endpoint }) => credentialOf(endpoint) ?? []));
	for (const label of labels) {
		const found = await store.credentials.find(label);
		if (found === null) throw new UsageError(`there is no credential ${label}`, "unknown_credential");
		if (found.state === "dead") {
			throw new UsageError(`the credential ${label} is dead: its provider refused it`, "credential_dead");
		}
	}
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
