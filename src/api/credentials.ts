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
