import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { RolloutError } from "../../errors.ts";
import { findAgentBinary } from "../../host/binary.ts";
import { AGENT_PATH } from "../box/launch.ts";
import { RUN_UNTRUSTED, runUntrustedTool } from "../box/run-untrusted.ts";
import { ETC, initProgram, type Staged } from "../box/staging.ts";
import { seccompFilter } from "../local/seccomp.ts";
import { bridgeProgram } from "../tunnel/tunnel.ts";
import type { SshConnection } from "./connection.ts";

/** The other machine, ready for boxes. */
export interface Remote {
	/** Where everything of ours lies there. */
	cache: string;
	bridge: string;
	staged: Staged;
	seccomp: Buffer;
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
for p in bash tar git rg; do command -v $p >/dev/null || echo "lacks=$p"; done
if [ -x /usr/bin/bwrap ] && [ -x /usr/bin/prlimit ] && [ -x /usr/bin/setpriv ]; then
	/usr/bin/bwrap --unshare-all --unshare-user --disable-userns --ro-bind / / true 2>&1 && echo bwrap=works
fi
`;

/** Looks the machine over and brings what is missing; done once, whoever else does the same at the same time. */
export async function prepareRemote(connection: SshConnection, agentBinary: string | null): Promise<Remote> {
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
	const seccomp = seccompFilter(arch);
	const binary = agentBinary ?? findAgentBinary("linux", arch);
	const agent = await install(connection, cache, "agent", binary);
	const hasWalls = facts.has("bwrap");
	return {
		cache,
		seccomp,
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
			seccomp: "",
			etc: await installEtc(connection, cache),
			etcFolders: facts.get("etc") ?? [],
			links: (facts.get("link") ?? []).map((line) => {
				const [from = "", to = ""] = line.split(" ");
				return { from, to };
			}),
		},
	};
}

/** The name is the content's checksum; it appears there only once the content is complete and checked. */
async function install(
	connection: SshConnection,
	cache: string,
	name: string,
	content: Buffer | string,
): Promise<string> {
	const sha256 = await digestOf(content);
	const folder = `${cache}/${sha256}`;
	const target = `${folder}/${name}`;
	// Whoever shares the account can put something else under the name: what is there is read, not believed.
	const present = await connection.script(`sha256sum ${quote(target)} 2>/dev/null`);
	if (present.stdout.split(" ")[0] === sha256) return target;
	const part = `${target}.${randomBytes(8).toString("hex")}`;
	const receive = `umask 077; mkdir -p ${quote(folder)} && cat > ${quote(part)} && sha256sum ${quote(part)}`;
	const source = typeof content === "string" ? createReadStream(content) : Readable.from([content]);
	const received = await connection.run(`/bin/sh -c ${quote(receive)}`, source);
	if (received.exitCode !== 0 || received.stdout.split(" ")[0] !== sha256) {
		await connection.script(`rm -f ${quote(part)}`);
		throw new RolloutError(
			"sandbox",
			"ssh_install_failed",
			`${name}: ${received.stderr.trim() || "checksum differs"}`,
			{
				retryable: true,
			},
		);
	}
	const settle = await connection.script(`chmod 500 ${quote(part)} && mv -f ${quote(part)} ${quote(target)}`);
	if (settle.exitCode === 0) return target;
	throw new RolloutError("sandbox", "ssh_install_failed", settle.stderr.trim(), { retryable: true });
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

async function digestOf(content: Buffer | string): Promise<string> {
	const hash = createHash("sha256");
	if (typeof content !== "string") return hash.update(content).digest("hex");
	await pipeline(createReadStream(content), hash);
	return hash.digest("hex");
}

function parseSurvey(text: string): Map<string, string[]> {
	const facts = new Map<string, string[]>();
	for (const line of text.split("\n")) {
		const [, name, value] = /^([a-z]+)=(.*)$/.exec(line) ?? [];
		if (name !== undefined) facts.set(name, [...(facts.get(name) ?? []), value ?? ""]);
	}
	return facts;
}

export function quote(text: string): string {
	return `'${text.replaceAll("'", "'\\''")}'`;
}

function unsuitable(why: string): RolloutError {
	return new RolloutError("sandbox", "ssh_unsuitable", `the machine cannot hold boxes: ${why}`);
}
