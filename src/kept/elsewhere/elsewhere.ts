import { fileURLToPath } from "node:url";
import type { Hosts } from "../../host/hosts.ts";
import { addressOf, type SshAddress } from "../../host/ssh/address.ts";
import { type AgentThere, bringAgent } from "../../host/ssh/agent.ts";
import { connectSsh } from "../../host/ssh/connection.ts";
import { quote } from "../../host/ssh/quote.ts";
import { surveyMachine } from "../../host/ssh/survey.ts";
import type { Host } from "../../model/host.ts";
import type { KeptAgent } from "../../model/kept-agent.ts";
import { makeHome } from "./home-there.ts";

const EXTENSION = import.meta.url.endsWith(".ts") ? "ts" : "js";
const ENTRY = fileURLToPath(new URL(`./main.${EXTENSION}`, import.meta.url));

/** Whom the go-between serves for, and where. No secret is in it: others can see it among its arguments. */
export interface Errand {
	agentId: string;
	address: SshAddress;
	agent: AgentThere;
}

/** What a keeper starts: OpenCode itself, or a go-between of ours that has it serve on another machine. */
export interface ServeProgram {
	binary: string;
	before?: readonly string[];
}

/** To the keeper it is a server like any other: it listens here, writes the log, and ends with what it stands for. */
export async function goBetween({ id }: KeptAgent, host: Host, signal: AbortSignal): Promise<ServeProgram> {
	const address = addressOf(host);
	await using connection = await connectSsh(address);
	// Before it is started, which has its time: the first one may have to be sent.
	const machine = await surveyMachine(connection, { signal });
	const { path, sha256 } = await bringAgent(connection, machine, { installed: host.agent }, { signal });
	const errand: Errand = { agentId: id, address, agent: { path, sha256 } };
	return { binary: process.execPath, before: [ENTRY, JSON.stringify(errand)] };
}

/** Its sessions over there go with it. */
export async function forgetThere({ id }: KeptAgent, name: string, hosts: Hosts): Promise<void> {
	await using connection = await connectSsh(addressOf(await hosts.find(name)));
	await connection.script(`rm -rf ${quote(await makeHome(connection, id))}`);
}
