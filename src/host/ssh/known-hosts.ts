import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import { RolloutError } from "../../errors.ts";
import { describeAddress, optionOf, type SshAddress } from "./address.ts";

/** Which host keys are the right ones, and which kinds to ask the host for. */
export interface Trust {
	accepts(key: Buffer): boolean;
	/** Null: whatever the host prefers. */
	algorithms: string[] | null;
}

/** A host that is not known is refused; nothing is ever learned on the way. */
export async function readTrust(address: SshAddress): Promise<Trust> {
	const { fingerprint } = address;
	if (fingerprint !== null) {
		const wanted = fingerprint.replace(/=$/, "");
		return { accepts: (key) => fingerprintOf(key) === wanted, algorithms: null };
	}
	const keys = keysFor(address, await readFile(address.knownHostsFile, "utf8").catch(() => ""));
	if (keys.length === 0) {
		throw new RolloutError(
			"sandbox",
			"ssh_host_unknown",
			`${address.knownHostsFile} has no key of ${address.host}, port ${address.port}: log in once by hand ` +
				`(ssh -p ${address.port} ${address.user}@${address.host}), or ${optionOf(address, "fingerprint")}`,
		);
	}
	return {
		accepts: (key) => keys.some((known) => known.length === key.length && timingSafeEqual(known, key)),
		algorithms: [...new Set(keys.flatMap(algorithmsOf))],
	};
}

export function fingerprintOf(key: Buffer): string {
	return `SHA256:${createHash("sha256").update(key).digest("base64").replace(/=+$/, "")}`;
}

export function hostKeyRefused(address: SshAddress, shown: Buffer | null): RolloutError {
	const key = shown === null ? "no key" : fingerprintOf(shown);
	return new RolloutError(
		"sandbox",
		"ssh_host_key_refused",
		`${describeAddress(address)} showed ${key}, which is not the key it should have: somebody may be in between`,
	);
}

/** Every key the file holds for this host, less those it revokes. */
export function keysFor({ host, port }: { host: string; port: number }, text: string): Buffer[] {
	const names = port === 22 ? [host, `[${host}]:22`] : [`[${host}]:${port}`];
	const keys: Buffer[] = [];
	const revoked: Buffer[] = [];
	for (const line of text.split("\n")) {
		const fields = line.trim().split(/\s+/);
		const marker = fields[0]?.startsWith("@") ? fields.shift() : undefined;
		const [hosts = "", , key = ""] = fields;
		if (hosts === "" || hosts.startsWith("#") || key === "" || !matches(hosts, names)) continue;
		if (marker === undefined) keys.push(Buffer.from(key, "base64"));
		if (marker === "@revoked") revoked.push(Buffer.from(key, "base64"));
	}
	return keys.filter((key) => !revoked.some((one) => one.equals(key)));
}

function matches(hosts: string, names: readonly string[]): boolean {
	if (hosts.startsWith("|1|")) {
		const [, , salt = "", hash = ""] = hosts.split("|");
		const hashed = (name: string) =>
			createHmac("sha1", Buffer.from(salt, "base64")).update(name).digest("base64");
		return names.some((name) => hashed(name) === hash);
	}
	const patterns = hosts.split(",");
	const fits = (pattern: string) => names.some((name) => toExpression(pattern).test(name));
	const refused = patterns.some((pattern) => pattern.startsWith("!") && fits(pattern.slice(1)));
	return !refused && patterns.some((pattern) => !pattern.startsWith("!") && fits(pattern));
}

function toExpression(pattern: string): RegExp {
	const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&");
	return new RegExp(`^${escaped.replaceAll("*", ".*").replaceAll("?", ".")}$`, "i");
}

/** An RSA key signs under newer names than its own. */
function algorithmsOf(key: Buffer): string[] {
	const type = key.length > 4 ? key.subarray(4, 4 + key.readUInt32BE(0)).toString("latin1") : "";
	return type === "ssh-rsa" ? ["rsa-sha2-512", "rsa-sha2-256"] : [type];
}
