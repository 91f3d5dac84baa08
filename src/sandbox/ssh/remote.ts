import { createHash } from "node:crypto";
import { RolloutError } from "../../errors.ts";
import { bringAgent } from "../../host/ssh/agent.ts";
import type { SshConnection } from "../../host/ssh/connection.ts";
import { ensureInstalled } from "../../host/ssh/install.ts";
import { quote } from "../../host/ssh/quote.ts";
import { type Machine, surveyMachine } from "../../host/ssh/survey.ts";
import type { Host } from "../../model/host.ts";
import { AGENT_PATH } from "../box/launch.ts";
import { RUN_UNTRUSTED, runUntrustedTool } from "../box/run-untrusted.ts";
import { ETC, initProgram, type Staged } from "../box/staging.ts";
import { bridgeProgram } from "../tunnel/tunnel.ts";

/** The other machine, ready for boxes. */
export interface Remote extends Machine {
	bridge: string;
	staged: Staged;
}

/** Looks the machine over and brings what is missing; done once, whoever else does the same at the same time. */
export async function prepareRemote(
	connection: SshConnection,
	agentBinary: string | null,
	installed: Host["agent"] = null,
): Promise<Remote> {
	const machine = await surveyMachine(connection);
	const { cache, etcFolders, links } = machine;
	const { path: agent } = await bringAgent(connection, machine, { installed, binary: agentBinary });
	return {
		...machine,
		bridge: await install(connection, cache, "bridge.ts", bridgeProgram()),
		staged: {
			agent,
			init: await install(connection, cache, "init.ts", initProgram()),
			runUntrusted: await install(
				connection,
				cache,
				RUN_UNTRUSTED,
				runUntrustedTool(machine.bwrap ? AGENT_PATH : agent),
			),
			etc: await installEtc(connection, cache),
			etcFolders,
			links,
		},
	};
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
