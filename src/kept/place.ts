import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { identify, isSame } from "../agent/keeper/processes.ts";
import type { AgentKeeperPlace } from "../model/kept-agent.ts";

/** This process, as others may look it up. */
export async function ownPlace(): Promise<AgentKeeperPlace> {
	const { pid, startTime } = (await identify(process.pid))!;
	return { machine: `${hostname()} ${bootId()}`, pid, startTime };
}

export function isHere({ machine }: AgentKeeperPlace): boolean {
	return machine.split(" ")[0] === hostname();
}

/** Whether whoever keeps an agent still lives; on another machine nobody here can tell, so it does. */
export async function isThere(place: AgentKeeperPlace): Promise<boolean> {
	if (!isHere(place)) return true;
	const [, boot] = place.machine.split(" ");
	return boot === bootId() && (await isSame(place));
}

/** No process outlives it. */
function bootId(): string {
	return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}
