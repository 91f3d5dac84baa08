import { z } from "zod";
import { Credential, CredentialLabel } from "../model/credential.ts";
import { DialectName } from "../model/endpoint.ts";
import { API, route } from "./route.ts";

const tag = "credentials";
const LabelParams = z.object({ label: CredentialLabel });

export const listCredentials = route({
	name: "listCredentials",
	method: "get",
	path: `${API}/credentials`,
	tag,
	summary: "Stored credentials; never a secret",
	reply: z.object({ items: z.array(Credential) }),
});

export const ApiKeyCreate = z
	.strictObject({
		label: CredentialLabel,
		apiKey: z.string().min(1).max(5000).describe("Sealed before it is stored, and never shown again"),
		baseUrl: z.string().max(2048).describe("Where the key is good"),
		model: z.string().min(1).max(200).describe("Unless a rollout names another"),
		dialect: DialectName.optional(),
		pool: CredentialLabel.optional().describe("Rollouts may ask for any one of it as `pool:<name>`"),
		capacity: z.int().min(1).max(100_000).optional().describe("How many rollouts may use it at once"),
	})
	.meta({ id: "ApiKeyCreate" });

export const addCredential = route({
	name: "addCredential",
	method: "post",
	path: `${API}/credentials`,
	tag,
	summary: "Stores an API key; rollouts use it as the endpoint `cred:<label>`",
	body: ApiKeyCreate,
	reply: Credential,
	status: 201,
	refusals: { 409: "The label is taken" },
});

export const LoginCreate = z
	.strictObject({
		label: CredentialLabel,
		provider: z
			.string()
			.regex(/^[A-Za-z0-9._-]{1,100}$/)
			.describe("Its name in the agent's auth.json"),
		auth: z
			.strictObject({
				refresh: z.string().min(1).max(20_000),
				access: z.string().max(20_000).default(""),
				expires: z.number().default(0).describe("When `access` ends, in ms since 1970; 0: nobody knows"),
			})
			.describe("Sealed before it is stored, and never shown again"),
		tokenUrl: z.string().max(2048).describe("Where tokens are refreshed, as in RFC 6749, section 6"),
		clientId: z.string().max(500).optional(),
		baseUrl: z.string().max(2048).describe("Where the tokens are good"),
		model: z.string().min(1).max(200).describe("Unless a rollout names another"),
		dialect: DialectName.optional(),
		pool: CredentialLabel.optional(),
	})
	.meta({ id: "LoginCreate" });

export const addLogin = route({
	name: "addLogin",
	method: "post",
	path: `${API}/credentials/logins`,
	tag,
	summary: "Stores a login whose tokens rotate; the gateway carries it, and one rollout uses it at a time",
	body: LoginCreate,
	reply: Credential,
	status: 201,
	refusals: { 409: "The label is taken" },
});

export const verifyCredential = route({
	name: "verifyCredential",
	method: "post",
	path: `${API}/credentials/{label}/verify`,
	tag,
	summary:
		"Asks the provider one small question with it, and notes what came of it; takes up to three minutes",
	params: LabelParams,
	reply: Credential,
	refusals: { 404: "There is no such credential", 409: "It is in use" },
});

export const freeCredential = route({
	name: "freeCredential",
	method: "post",
	path: `${API}/credentials/{label}/free`,
	tag,
	summary: "Ends a quarantine without asking the provider",
	params: LabelParams,
	body: z
		.strictObject({
			newest: z
				.boolean()
				.default(false)
				.describe("What was put aside last takes the place of what is stored; else it is forgotten"),
		})
		.meta({ id: "CredentialFree" }),
	reply: Credential,
	refusals: { 404: "There is no such credential", 409: "It is in use" },
});

export const purgeCredentials = route({
	name: "purgeCredentials",
	method: "post",
	path: `${API}/credentials/purge`,
	tag,
	summary: "Forgets every dead credential, or all of a pool",
	body: z
		.strictObject({
			pool: CredentialLabel.optional(),
			force: z.boolean().default(false).describe("Also those in use: their holders lose them"),
		})
		.meta({ id: "CredentialPurge" }),
	reply: z.object({ removed: z.array(z.string()), inUse: z.array(z.string()) }),
});

export const getCredential = route({
	name: "getCredential",
	method: "get",
	path: `${API}/credentials/{label}`,
	tag,
	summary: "What is known of one credential, and who uses it; never the secret",
	params: LabelParams,
	reply: Credential,
	refusals: { 404: "There is no such credential" },
});

export const removeCredential = route({
	name: "removeCredential",
	method: "delete",
	path: `${API}/credentials/{label}`,
	tag,
	summary: "Forgets a credential, with the key that sealed it",
	params: LabelParams,
	query: z.object({
		force: z
			.enum(["true", "false"])
			.default("false")
			.describe("Also while it is in use: its holders lose it"),
	}),
	reply: z.object({ removed: z.literal(true) }),
	refusals: { 404: "There is no such credential", 409: "It is in use" },
});
