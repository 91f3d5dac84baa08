import type { SshConnection } from "../../host/ssh/connection.ts";
import { unsuitable } from "../../host/ssh/survey.ts";

/** An agent's home on the other machine: the account's own, and nobody else's. */
export async function makeHome(connection: SshConnection, agentId: string): Promise<string> {
	if (!/^[\w-]+$/.test(agentId)) throw new Error(`not the id of an agent: ${agentId}`);
	const { stdout } = await connection.script(`
umask 077
case "$XDG_DATA_HOME" in /*) d="\${XDG_DATA_HOME%/}" ;; *) d="$HOME/.local/share" ;; esac
h="$d/paddock/agents/${agentId}"
mkdir -p "$h/tmp" "$h/data" "$h/work" && [ -O "$h" ] && [ ! -L "$h" ] && chmod 700 "$h" && echo "$h"`);
	const home = stdout.trim();
	if (home.startsWith("/")) return home;
	throw unsuitable(
		"its folder paddock below XDG_DATA_HOME or ~/.local/share cannot be made, or is not its own",
	);
}
