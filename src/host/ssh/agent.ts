import type { Host, Installed } from "../../model/host.ts";
import { findAgentBinary } from "../binary.ts";
import type { CommandLimits, SshConnection } from "./connection.ts";
import { ensureInstalled, isThere } from "./install.ts";
import { type Machine, unsuitable } from "./survey.ts";

export type AgentThere = Pick<Installed, "path" | "sha256">;

/** The agent there, whole: what was installed by hand, as long as it is that; else it is brought along. */
export async function bringAgent(
	connection: SshConnection,
	{ cache, arch, kind }: Machine,
	{ installed, binary = null }: { installed: Host["agent"]; binary?: string | null },
	limits?: CommandLimits,
): Promise<AgentThere> {
	if (installed !== null) return await requireAgent(connection, installed, limits);
	const content = binary ?? findAgentBinary("linux", arch, kind);
	return await ensureInstalled(connection, cache, { name: "agent", content }, limits);
}

export async function requireAgent<T extends AgentThere>(
	connection: SshConnection,
	agent: T,
	limits?: CommandLimits,
): Promise<T> {
	if (await isThere(connection, agent, limits)) return agent;
	throw unsuitable(`${agent.path} is not the agent that was installed there: run paddock host install again`);
}
