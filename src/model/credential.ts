import { z } from "zod";
import { DialectName } from "./endpoint.ts";

/** Names a credential in commands and as `cred:<label>`. */
export const CredentialLabel = z
	.string()
	.regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, "small letters, digits, dots, _ and -, at most 63")
	.meta({ id: "CredentialLabel" });

/** What a look at a credential says. An outage is not death: then nobody knows. */
export const CredentialState = z
	.enum(["unknown", "alive", "limited", "dead", "quarantined"])
	.meta({ id: "CredentialState" })
	.describe(
		"What its provider said last: dead is refused for good, limited for now. Quarantined: a newer login could not be stored in its place, and nobody may use it before it is verified or freed",
	);
export type CredentialState = z.infer<typeof CredentialState>;

/** How the tokens of a login are refreshed: RFC 6749, section 6. */
export const LoginTerms = z
	.object({
		provider: z.string().describe("Its entry in the agent's auth.json"),
		tokenUrl: z.string().describe("The provider's token endpoint"),
		clientId: z.string().nullable().describe("Who the provider knows us as, if it wants to know"),
	})
	.meta({ id: "LoginTerms" });
export type LoginTerms = z.infer<typeof LoginTerms>;

/** A login that only the agent's own program can speak for. */
export const PlantedTerms = z
	.object({
		provider: z.string().describe("Its entry in the agent's auth.json"),
		model: z.string().describe("The model's name at the provider"),
		hosts: z.array(z.string()).min(1).describe("All that the box may reach while the login lies in it"),
	})
	.meta({ id: "PlantedTerms" });
export type PlantedTerms = z.infer<typeof PlantedTerms>;

/** A login that could not be stored where it belongs; the only living one, perhaps. */
export const Quarantined = z
	.object({
		fence: z.int().describe("Of the hold that brought it"),
		at: z.number(),
		reason: z.string(),
		fingerprint: z.string(),
	})
	.meta({ id: "Quarantined" });
export type Quarantined = z.infer<typeof Quarantined>;

/** What is known of a stored credential; never the secret itself. */
export const Credential = z
	.object({
		id: z.string(),
		label: CredentialLabel,
		kind: z.enum(["api-key", "login"]).describe("A login's tokens rotate: it has one holder at a time"),
		endpoint: z
			.object({ baseUrl: z.string(), model: z.string(), dialect: DialectName })
			.nullable()
			.describe("Where an API key is good, and for which model unless a rollout names another"),
		login: LoginTerms.nullable().describe("Where a login's tokens are refreshed; null for an API key"),
		planted: PlantedTerms.nullable().describe(
			"Set for a login that no gateway can carry: it lies in the agent's box, and its rollouts are untrainable",
		),
		pool: CredentialLabel.nullable().describe("Its pool: rollouts may ask for any one of it"),
		capacity: z.int().min(1).describe("How many may hold it at once"),
		state: CredentialState,
		reason: z.string().nullable().describe("What the last look at it said, when it was not alive"),
		fingerprint: z.string().describe("Tells two secrets apart, and nothing about them"),
		version: z.int().describe("Grows with each secret that is saved"),
		createdAt: z.number(),
		updatedAt: z.number(),
		lastUsedAt: z.number().nullable(),
		lastVerifiedAt: z.number().nullable(),
		quarantine: z.array(Quarantined).describe("Logins that were put aside, oldest first"),
		holders: z.array(z.object({ holder: z.string(), expiresAt: z.number() })),
	})
	.meta({ id: "Credential" });
export type Credential = z.infer<typeof Credential>;

/** What a provider said of a credential. */
export interface Finding {
	state: CredentialState;
	reason: string | null;
	/** It sounded like a refusal, but something on the way may have said it; the third in a row is one. */
	isDoubtful: boolean;
}
