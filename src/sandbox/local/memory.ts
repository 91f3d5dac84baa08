import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Cgroup, ROOT } from "./cgroup.ts";

const FULL = 0.9;

/** How often the kernel has had to kill something in a group that reached its limit, and not because the machine had no memory left. */
export async function memoryKills(cgroup: Cgroup): Promise<number> {
	const counted = await readMemory(cgroup, cgroup.version === "v2" ? "memory.events" : "memory.oom_control");
	return (await hasBeenFull(cgroup, counted)) ? numberAfter("oom_kill", counted) : 0;
}

/** By its highest mark in v1, where new kernels no longer count how often the limit was met. */
async function hasBeenFull(cgroup: Cgroup, events: string): Promise<boolean> {
	if (cgroup.version === "v2") return numberAfter("max", events) > 0;
	const most = Number(await readMemory(cgroup, "memory.max_usage_in_bytes"));
	return most > FULL * Number(await readMemory(cgroup, "memory.limit_in_bytes"));
}

/** Whether it has, or will have to soon: what cannot be read again from a disk fills the group. */
export async function isOutOfMemory(cgroup: Cgroup): Promise<boolean> {
	if (cgroup.version === "none") return false;
	if ((await memoryKills(cgroup)) > 0) return true;
	const [anonymous, shared, most] =
		cgroup.version === "v2"
			? ["anon", "shmem", "memory.max"]
			: ["total_rss", "total_shmem", "memory.limit_in_bytes"];
	const held = await readMemory(cgroup, "memory.stat");
	const limit = Number(await readMemory(cgroup, most));
	return numberAfter(anonymous, held) + numberAfter(shared, held) > FULL * limit;
}

async function readMemory(cgroup: Cgroup, file: string): Promise<string> {
	const folder =
		cgroup.version === "v2"
			? cgroup.folders[0]
			: cgroup.folders.find((one) => one.startsWith(`${ROOT}/memory/`));
	return folder === undefined ? "" : await readFile(join(folder, file), "utf8").catch(() => "");
}

function numberAfter(word: string, text: string): number {
	return Number(new RegExp(`^${word} (\\d+)$`, "m").exec(text)?.[1] ?? 0);
}
