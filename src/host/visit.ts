import { messageOf } from "../errors.ts";
import type { Host, HostCheck, Installed } from "../model/host.ts";
import { unpackAgent } from "./archive.ts";
import { agentVersion, findAgentBinary } from "./binary.ts";
import { digestOf } from "./digest.ts";
import { addressOf, describeAddress } from "./ssh/address.ts";
import { type CommandLimits, connectSsh, type SshConnection } from "./ssh/connection.ts";
import { ensureInstalled, isThere, placeOf } from "./ssh/install.ts";
import { quote } from "./ssh/quote.ts";
import { type Machine, requireWalls, surveyMachine, unsuitable } from "./ssh/survey.ts";

export interface VisitOptions {
	/** Words that stand before every command that starts the agent there. */
	wrap?: readonly string[] | undefined;
	/** Ends what was started there, too. */
	signal?: AbortSignal | undefined;
}

export interface InstallOptions extends VisitOptions {
	/** A package as npm publishes it, with its checksum; else the agent that npm installed here. */
	archive?: { path: string; sha256: string } | undefined;
	onProgress?: ((percent: number) => void) | undefined;
}

export interface InstalledAgent extends Installed {
	version: string;
}

type Agent = NonNullable<Host["agent"]>;

/** Brings the agent to the machine's cache, outside any work folder, and starts it once to hear its version. */
export async function installAgent(host: Host, options: InstallOptions = {}): Promise<InstalledAgent> {
	const { archive, signal, onProgress } = options;
	await using connection = await connectSsh(addressOf(host));
	const { arch, kind, cache } = await surveyMachine(connection, { signal });
	await using unpacked = archive ? await unpackAgent(archive.path, archive.sha256) : null;
	const content = unpacked?.path ?? findAgentBinary("linux", arch, kind);
	const program = { name: "agent", content, onProgress };
	const installed = await ensureInstalled(connection, cache, program, { signal });
	return { ...installed, version: await versionOf(connection, installed.path, options) };
}

/** The agent that boxes start from there: the one that was installed by hand, else the one that they bring along. */
async function agentOf({ agent }: Host, { arch, kind, cache }: Machine): Promise<Agent> {
	if (agent !== null) return agent;
	const sha256 = await digestOf(findAgentBinary("linux", arch, kind));
	return { path: placeOf(cache, sha256, "agent"), sha256, version: agentVersion() };
}

/** Each look only when the one before it went well; none throws, unless the caller gives up. */
export async function checkHost(host: Host, options: VisitOptions = {}): Promise<HostCheck> {
	const { signal } = options;
	const checks: HostCheck["checks"] = [];
	await using stack = new AsyncDisposableStack();
	const look = async <T>(name: string, fix: string, find: () => Promise<T>, detail: (found: T) => string) => {
		if (checks.some(({ ok }) => !ok)) return null;
		try {
			const found = await find();
			checks.push({ name, ok: true, detail: detail(found) });
			return found;
		} catch (error) {
			signal?.throwIfAborted();
			checks.push({ name, ok: false, detail: messageOf(error), fix });
			return null;
		}
	};
	const connection = await look(
		"login",
		"check the address, the key file and the machine's own key",
		async () => stack.use(await connectSsh(addressOf(host))),
		() => describeAddress(addressOf(host)),
	);
	const machine = await look(
		"machine",
		"see what boxes need there: docs/sandboxes.md",
		() => suitable(connection!, host, { signal }),
		({ system, bwrap }) =>
			`${system}, ${bwrap ? "bubblewrap works" : "no bubblewrap: boxes isolate nothing"}`,
	);
	const install = `paddock host install ${host.name}`;
	const agent = await look(
		"agent",
		install,
		() => presentAgent(connection!, host, machine!, { signal }),
		({ path }) => path,
	);
	await look(
		"version",
		install,
		() => sameVersion(connection!, agent!, options),
		(version) =>
			`OpenCode ${version}${version === agentVersion() ? "" : `; Paddock comes with ${agentVersion()}`}`,
	);
	return { name: host.name, ok: checks.every(({ ok }) => ok), checks };
}

async function suitable(connection: SshConnection, host: Host, limits: CommandLimits): Promise<Machine> {
	const machine = await surveyMachine(connection, limits);
	requireWalls(machine, addressOf(host));
	return machine;
}

async function presentAgent(
	connection: SshConnection,
	host: Host,
	machine: Machine,
	limits: CommandLimits,
): Promise<Agent> {
	const agent = await agentOf(host, machine);
	if (await isThere(connection, agent, limits)) return agent;
	throw new Error(
		host.agent === null
			? "not there yet: the first box brings it along"
			: `${agent.path} is not the agent that was installed there`,
	);
}

async function sameVersion(
	connection: SshConnection,
	{ path, version }: Agent,
	options: VisitOptions,
): Promise<string> {
	const said = await versionOf(connection, path, options);
	if (said === version) return said;
	throw new Error(`it says ${said}, not ${version}`);
}

/** In surroundings of its own: neither a profile nor a setting of the account has a say. */
async function versionOf(
	connection: SshConnection,
	agent: string,
	{ wrap = [], signal }: VisitOptions,
): Promise<string> {
	const words = [...wrap, agent, "--version"].map(quote).join(" ");
	const home = "trap 'exit 1' TERM; home=$(mktemp -d) && trap 'rm -rf \"$home\"' EXIT && cd /";
	const clean = 'env -i HOME="$home" PATH=/usr/bin:/bin OPENCODE_DISABLE_AUTOUPDATE=1';
	const script = `${home} && ${clean} ${words} < /dev/null\n`;
	const { exitCode, stdout, stderr } = await connection.script(script, { signal });
	const version = /^\d+\.\d+\.\d+\S*/m.exec(stdout)?.[0];
	if (exitCode === 0 && version !== undefined) return version;
	throw unsuitable(
		`the agent does not start there: ${stderr.trim().slice(-1000) || `it ended with ${exitCode}`}`,
	);
}
