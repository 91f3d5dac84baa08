import { createHash } from "node:crypto";
import { RolloutError } from "../../errors.ts";
import { findAgentBinary } from "../../host/binary.ts";
import type { SshConnection } from "../../host/ssh/connection.ts";
import { ensureInstalled } from "../../host/ssh/install.ts";
import { quote } from "../../host/ssh/quote.ts";
import type { Host } from "../../model/host.ts";
import { AGENT_PATH } from "../box/launch.ts";
import { RUN_UNTRUSTED, runUntrustedTool } from "../box/run-untrusted.ts";
import { ETC, initProgram, type Staged } from "../box/staging.ts";
import { bridgeProgram } from "../tunnel/tunnel.ts";

/** The other machine, ready for boxes. */
export interface Remote {
	/** Where everything of ours lies there. */
	cache: string;
	bridge: string;
	staged: Staged;
	/** False: bubblewrap is missing or does not work there. */
	bwrap: boolean;
	system: string;
}

const MACHINES: Record<string, string> = { x86_64: "x64", aarch64: "arm64" };

/** What can be asked of any POSIX shell. bubblewrap is tried out: some machines have it and forbid it. */
const SURVEY = `
echo "machine=$(uname -sm)"
echo "uid=$(id -u)"
umask 077
c="$HOME/.cache/paddock"
mkdir -p "$c/boxes" && echo "cache=$c"
for l in bin lib lib64 sbin; do [ -L /$l ] && echo "link=/$l $(readlink /$l)"; done
for d in /etc/ssl /etc/alternatives; do [ -d $d ] && echo "etc=$d"; done
for p in bash tar git rg flock; do command -v $p >/dev/null || echo "lacks=$p"; done
if [ -x /usr/bin/bwrap ] && [ -x /usr/bin/prlimit ] && [ -x /usr/bin/setpriv ]; then
	/usr/bin/bwrap --unshare-all --unshare-user --disable-userns --ro-bind / / true 2>&1 && echo bwrap=works
fi
`;

/** Looks the machine over and brings what is missing; done once, whoever else does the same at the same time. */
export async function prepareRemote(
	connection: SshConnection,
	agentBinary: string | null,
	installed: Host["agent"] = null,
): Promise<Remote> {
	const facts = parseSurvey((await connection.script(SURVEY)).stdout);
	const [system = "", machine = ""] = (facts.get("machine")?.[0] ?? "").split(" ");
	const arch = MACHINES[machine];
	if (system !== "Linux" || arch === undefined)
		throw unsuitable(`it is a ${system} ${machine}, not Linux on x86_64 or aarch64`);
	if (facts.get("uid")?.[0] === "0") throw unsuitable("the login is root; use an account without privileges");
	const lacks = facts.get("lacks") ?? [];
	if (lacks.length > 0) throw unsuitable(`it lacks ${lacks.join(", ")}: install them there`);
	const cache = facts.get("cache")?.[0];
	if (cache === undefined) throw unsuitable("its ~/.cache/paddock cannot be made");
	const agent =
		installed === null
			? await install(connection, cache, "agent", agentBinary ?? findAgentBinary("linux", arch))
			: await requireInstalled(connection, installed);
	const hasWalls = facts.has("bwrap");
	return {
		cache,
		system: `${system} ${machine}`,
		bwrap: hasWalls,
		bridge: await install(connection, cache, "bridge.ts", bridgeProgram()),
		staged: {
			agent,
			init: await install(connection, cache, "init.ts", initProgram()),
			runUntrusted: await install(
				connection,
				cache,
				RUN_UNTRUSTED,
				runUntrustedTool(hasWalls ? AGENT_PATH : agent),
			),
			etc: await installEtc(connection, cache),
			etcFolders: facts.get("etc") ?? [],
			links: (facts.get("link") ?? []).map((line) => {
				const [from = "", to = ""] = line.split(" ");
				return { from, to };
			}),
		},
	};
}

/** What was installed by hand is what boxes start from, as long as it is that. */
async function requireInstalled(
	connection: SshConnection,
	{ path, sha256 }: NonNullable<Host["agent"]>,
): Promise<string> {
	const found = await connection.script(`sha256sum ${quote(path)}`);
	if (found.stdout.split(" ")[0] === sha256) return path;
	throw unsuitable(`${path} is not the agent that was installed there: run paddock host install again`);
}

async function install(
	connection: SshConnection,
	cache: string,
	name: string,
	content: Buffer | string,
): Promise<string> {
	return (await ensureInstalled(connection, cache, { name, content })).path;
}

/** The minimal /etc of every box, with that machine's own table of libraries. */
async function installEtc(connection: SshConnection, cache: string): Promise<string> {
	const files = Object.entries(ETC).map(([name, text]) => {
		return `echo ${Buffer.from(text).toString("base64")} | base64 -d > "$part/${name}"`;
	});
	const digest = createHash("sha256").update(files.join("\n")).digest("hex").slice(0, 16);
	const { exitCode, stdout, stderr } = await connection.script(`
set -e
umask 022
libraries=$(sha256sum < /etc/ld.so.cache | cut -c 1-16)
target=${quote(cache)}/etc-${digest}-$libraries
if [ ! -d "$target" ]; then
	part="$target.$$"
	mkdir "$part" "$part/ssl" "$part/alternatives"
	${files.join("\n\t")}
	cp /etc/ld.so.cache "$part/ld.so.cache"
	mv -T "$part" "$target" 2>/dev/null || rm -rf "$part"
fi
echo "$target"
`);
	if (exitCode === 0) return stdout.trim();
	throw new RolloutError("sandbox", "ssh_install_failed", stderr.trim(), { retryable: true });
}

function parseSurvey(text: string): Map<string, string[]> {
	const facts = new Map<string, string[]>();
	for (const line of text.split("\n")) {
		const [, name, value] = /^([a-z]+)=(.*)$/.exec(line) ?? [];
		if (name !== undefined) facts.set(name, [...(facts.get(name) ?? []), value ?? ""]);
	}
	return facts;
}

function unsuitable(why: string): RolloutError {
	return new RolloutError("sandbox", "ssh_unsuitable", `the machine cannot hold boxes: ${why}`);
}
