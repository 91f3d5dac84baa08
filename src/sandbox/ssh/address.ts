import { homedir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../../errors.ts";

/** Where the boxes are, and how that machine is recognised. */
export interface SshAddress {
	user: string;
	host: string;
	port: number;
	keyFile: string;
	/** SHA256:…, as `ssh-keygen -lf` prints it; wins over known_hosts. */
	fingerprint: string | null;
	knownHostsFile: string;
	/** Boxes without walls, where the machine has no bubblewrap. */
	allowPlain: boolean;
}

export function readAddress(env: Record<string, string | undefined>): SshAddress {
	const text = env.PADDOCK_SSH_HOST;
	if (!text) throw bad("PADDOCK_SSH_HOST is not set: user@host or user@host:port");
	const match = /^([^@\s]+)@(\[[0-9a-fA-F:]+\]|[^:@\s]+)(?::(\d+))?$/.exec(text);
	const port = Number(match?.[3] ?? 22);
	if (match === null || port < 1 || port > 65_535)
		throw bad(`PADDOCK_SSH_HOST=${text} is not user@host:port`);
	const fingerprint = env.PADDOCK_SSH_FINGERPRINT || null;
	if (fingerprint !== null && !/^SHA256:[A-Za-z0-9+/]{43}=?$/.test(fingerprint)) {
		throw bad("PADDOCK_SSH_FINGERPRINT is not SHA256:<43 characters>; ssh-keygen -lf prints it");
	}
	return {
		user: match[1]!,
		host: match[2]!.replace(/^\[|\]$/g, ""),
		port,
		keyFile: env.PADDOCK_SSH_KEY_FILE || join(homedir(), ".ssh", "id_ed25519"),
		fingerprint,
		knownHostsFile: env.PADDOCK_SSH_KNOWN_HOSTS || join(homedir(), ".ssh", "known_hosts"),
		allowPlain: env.PADDOCK_SSH_ALLOW_PLAIN === "1",
	};
}

export function describeAddress({ user, host, port }: SshAddress): string {
	return `${user}@${host.includes(":") ? `[${host}]` : host}${port === 22 ? "" : `:${port}`}`;
}

function bad(message: string): UsageError {
	return new UsageError(message, "ssh_not_configured");
}
