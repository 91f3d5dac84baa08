import { messageOf, RolloutError } from "../errors.ts";
import type { Host, HostCheck, Installed } from "../model/host.ts";
import { unpackAgent } from "./archive.ts";
import { findAgentBinary } from "./binary.ts";
import { addressOf, describeAddress } from "./ssh/address.ts";
import { connectSsh, type SshConnection } from "./ssh/connection.ts";
import { ensureInstalled } from "./ssh/install.ts";
import { quote } from "./ssh/quote.ts";

const MACHINES: Record<string, string> = { x86_64: "x64", aarch64: "arm64" };

export interface InstallOptions {
	/** A package as npm publishes it, with its checksum; else the agent that npm installed here. */
	archive?: { path: string; sha256: string } | undefined;
	/** Words that stand before every command that starts the agent there. */
	wrap?: readonly string[] | undefined;
	onProgress?: ((percent: number) => void) | undefined;
}

export interface InstalledAgent extends Installed {
	version: string;
}

/** Brings the agent to the machine's cache, outside any work folder, and starts it once to hear its version. */
export async function installAgent(host: Host, options: InstallOptions = {}): Promise<InstalledAgent> {
	await using connection = await connectSsh(addressOf(host));
	const { arch, cache } = await survey(connection);
	const { archive, wrap, onProgress } = options;
	await using unpacked = archive ? await unpackAgent(archive.path, archive.sha256) : null;
	const content = unpacked?.path ?? findAgentBinary("linux", arch);
	const installed = await ensureInstalled(connection, cache, { name: "agent", content, onProgress });
	return { ...installed, version: await versionOf(connection, installed.path, wrap) };
}

/** Each look only when the one before it went well; none throws. */
export async function checkHost(host: Host, options: { wrap?: readonly string[] } = {}): Promise<HostCheck> {
	const checks: HostCheck["checks"] = [];
	await using stack = new AsyncDisposableStack();
	const look = async <T>(name: string, fix: string, find: () => Promise<T>, detail: (found: T) => string) => {
		if (checks.some(({ ok }) => !ok)) return null;
		try {
			const found = await find();
			checks.push({ name, ok: true, detail: detail(found) });
			return found;
		} catch (error) {
			checks.push({ name, ok: false, detail: messageOf(error), fix });
			return null;
		}
	};
	const address = addressOf(host);
	const connection = await look(
		"login",
		"check the address, the key file and the machine's own key",
		async () => stack.use(await connectSsh(address)),
		() => describeAddress(address),
	);
	await look(
		"machine",
		"use Linux on x86_64 or aarch64",
		() => survey(connection!),
		({ system }) => system,
	);
	await look(
		"agent",
		`paddock host install ${host.name}`,
		() => versionOf(connection!, requireAgent(host), options.wrap),
		(version) => `OpenCode ${version}, ${host.agent!.path}`,
	);
	return { name: host.name, ok: checks.every(({ ok }) => ok), checks };
}

function requireAgent({ agent }: Host): string {
	if (agent !== null) return agent.path;
	throw new Error("not installed by hand: the first box brings it along");
}

async function survey(connection: SshConnection): Promise<{ arch: string; cache: string; system: string }> {
	const script =
		'uname -sm; umask 077; c="$HOME/.cache/paddock"; mkdir -p "$c" && echo "$c"; command -v flock';
	const [system = "", cache = "", flock = ""] = (await connection.script(script)).stdout.split("\n");
	const arch = MACHINES[system.split(" ")[1] ?? ""];
	if (!system.startsWith("Linux ") || arch === undefined)
		throw unsuitable(`it is a ${system || "silent machine"}, not Linux on x86_64 or aarch64`);
	if (!cache.startsWith("/")) throw unsuitable("its ~/.cache/paddock cannot be made");
	if (flock === "") throw unsuitable("it lacks flock: install util-linux there");
	return { arch, cache, system };
}

/** In surroundings of its own: neither a profile nor a setting of the account has a say. */
async function versionOf(
	connection: SshConnection,
	agent: string,
	wrap: readonly string[] = [],
): Promise<string> {
	const words = [...wrap, agent, "--version"].map(quote).join(" ");
	const home = "home=$(mktemp -d) && trap 'rm -rf \"$home\"' EXIT && cd /";
	const clean = 'env -i HOME="$home" PATH=/usr/bin:/bin OPENCODE_DISABLE_AUTOUPDATE=1';
	const { exitCode, stdout, stderr } = await connection.script(`${home} && ${clean} ${words} < /dev/null\n`);
	const version = /^\d+\.\d+\.\d+\S*/m.exec(stdout)?.[0];
	if (exitCode === 0 && version !== undefined) return version;
	throw unsuitable(
		`the agent does not start there: ${stderr.trim().slice(-1000) || `it ended with ${exitCode}`}`,
	);
}

function unsuitable(why: string): RolloutError {
	return new RolloutError("sandbox", "ssh_unsuitable", `the machine cannot hold boxes: ${why}`);
}
