import { homedir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../../errors.ts";
import type { Host } from "../../model/host.ts";

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
	/** Null: the one of the variables. */
	name: string | null;
}

export function readAddress(env: Record<string, string | undefined>): SshAddress {
	const text = env.PADDOCK_SSH_HOST;
	if (!text) throw bad("PADDOCK_SSH_HOST is not set: user@host or user@host:port");
	const target = parseTarget(text, "PADDOCK_SSH_HOST=");
	const fingerprint = env.PADDOCK_SSH_FINGERPRINT || null;
	requireFingerprint(fingerprint, "PADDOCK_SSH_FINGERPRINT");
	return {
		...target,
		keyFile: env.PADDOCK_SSH_KEY_FILE || join(homedir(), ".ssh", "id_ed25519"),
		fingerprint,
		knownHostsFile: env.PADDOCK_SSH_KNOWN_HOSTS || join(homedir(), ".ssh", "known_hosts"),
		allowPlain: env.PADDOCK_SSH_ALLOW_PLAIN === "1",
		name: null,
	};
}

const OPTIONS = {
	fingerprint: { variable: "PADDOCK_SSH_FINGERPRINT", option: "--fingerprint SHA256:…" },
	allowPlain: { variable: "PADDOCK_SSH_ALLOW_PLAIN=1", option: "--allow-plain" },
};

/** How to say it: of the machine of the variables by another one, of a named machine when it is added. */
export function optionOf({ name }: SshAddress, setting: keyof typeof OPTIONS): string {
	const { variable, option } = OPTIONS[setting];
	return name === null ? `set ${variable}` : `remove ${name} and add it again with ${option}`;
}

/** A machine that was given a name. */
export function addressOf(host: Host): SshAddress {
	const { name, address, keyFile, fingerprint, knownHostsFile, allowPlain } = host;
	requireFingerprint(fingerprint, "the fingerprint");
	return {
		...parseTarget(address),
		keyFile: keyFile ?? join(homedir(), ".ssh", "id_ed25519"),
		fingerprint,
		knownHostsFile: knownHostsFile ?? join(homedir(), ".ssh", "known_hosts"),
		allowPlain,
		name,
	};
}

function parseTarget(text: string, named = ""): Pick<SshAddress, "user" | "host" | "port"> {
	const match = /^([^@\s]+)@(\[[0-9a-fA-F:]+\]|[^:@\s]+)(?::(\d+))?$/.exec(text);
	const port = Number(match?.[3] ?? 22);
	if (match === null || port < 1 || port > 65_535) throw bad(`${named}${text} is not user@host:port`);
	return { user: match[1]!, host: match[2]!.replace(/^\[|\]$/g, ""), port };
}

function requireFingerprint(fingerprint: string | null, named: string): void {
	if (fingerprint === null || /^SHA256:[A-Za-z0-9+/]{43}=?$/.test(fingerprint)) return;
	throw bad(`${named} is not SHA256:<43 characters>; ssh-keygen -lf prints it`);
}

export function describeAddress({ user, host, port }: SshAddress): string {
	return `${user}@${host.includes(":") ? `[${host}]` : host}${port === 22 ? "" : `:${port}`}`;
}

function bad(message: string): UsageError {
	return new UsageError(message, "ssh_not_configured");
}
