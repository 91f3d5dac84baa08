import { z } from "zod";

/** Names a machine in commands and as the sandbox `ssh:<name>`. */
export const HostName = z
	.string()
	.regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, "small letters, digits, dots, _ and -, at most 63")
	.meta({ id: "HostName" });

/** Another machine that boxes can be placed on. */
export const Host = z
	.strictObject({
		name: HostName,
		address: z.string().max(500).describe("user@host or user@host:port"),
		keyFile: z.string().nullable().describe("The private key to log in with; null: ~/.ssh/id_ed25519"),
		fingerprint: z.string().nullable().describe("Of the machine's own key, as `ssh-keygen -lf` prints it"),
		knownHostsFile: z.string().nullable().describe("Where its key is known from; null: ~/.ssh/known_hosts"),
		allowPlain: z.boolean().describe("Boxes without walls, where the machine has no bubblewrap"),
		agent: z
			.strictObject({ path: z.string(), sha256: z.string(), version: z.string() })
			.nullable()
			.describe("The agent that was installed there by hand; null: boxes bring their own"),
	})
	.meta({ id: "Host" });
export type Host = z.infer<typeof Host>;

/** What a look at a machine found. */
export const HostCheck = z
	.object({
		name: z.string(),
		ok: z.boolean(),
		checks: z.array(
			z.object({ name: z.string(), ok: z.boolean(), detail: z.string(), fix: z.string().optional() }),
		),
	})
	.meta({ id: "HostCheck" });
export type HostCheck = z.infer<typeof HostCheck>;

/** A program in the cache of a machine. */
export interface Installed {
	path: string;
	sha256: string;
	/** False: it was there already. */
	isNew: boolean;
}
