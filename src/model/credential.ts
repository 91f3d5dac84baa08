import { z } from "zod";
import { DialectName } from "./endpoint.ts";

/** Names a credential in commands and as `cred:<label>`. */
export const CredentialLabel = z
	.string()
	.regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, "small letters, digits, dots, _ and -, at most 63")
	.meta({ id: "CredentialLabel" });

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
		capacity: z.int().min(1).describe("How many may hold it at once"),
		state: z.enum(["unknown", "alive", "limited", "dead"]),
		fingerprint: z.string().describe("Tells two secrets apart, and nothing about them"),
		version: z.int().describe("Grows with each secret that is saved"),
		createdAt: z.number(),
		updatedAt: z.number(),
		lastUsedAt: z.number().nullable(),
		lastVerifiedAt: z.number().nullable(),
		holders: z.array(z.object({ holder: z.string(), expiresAt: z.number() })),
	})
	.meta({ id: "Credential" });
export type Credential = z.infer<typeof Credential>;
