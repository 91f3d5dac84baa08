import { existsSync } from "node:fs";
import { access, constants, mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { BoxSpec } from "../../model/task.ts";
import { PROCESS_HEADROOM } from "../box/wire.ts";

export const ROOT = "/sys/fs/cgroup";
const NAME = "paddock";
const V1_CONTROLLERS = ["memory", "pids", "cpu", "cpuacct", "freezer"] as const;
const CPU_PERIOD_US = 100_000;
const REMOVE_ATTEMPTS = 200;
const CLEAR_ROUNDS = 100;
const CLEAR_EVERY_MS = 10;

/** The folders that hold one box's processes; empty where the machine lets us limit nothing. */
export interface Cgroup {
	version: "v2" | "v1" | "none";
	folders: string[];
	/** Why there is none, or which controllers hold. */
	note: string;
}

export interface Limits {
	memoryBytes: number;
	pids: number;
	cpus: number;
}

/** Home, /tmp and /dev/shm live in memory and are charged to the same limit, so they are added to it. */
export function toLimits(spec: BoxSpec, temporaryBytes: number): Limits {
	return {
		memoryBytes: (spec.memoryMb + spec.diskMb) * 1024 * 1024 + temporaryBytes,
		pids: spec.pids + PROCESS_HEADROOM,
		cpus: spec.cpus,
	};
}

/** Which folders a box of this name would get; nothing is made yet, so that it can be written down first. */
export async function planCgroup(name: string): Promise<Cgroup> {
	const parent = await findV2Parent();
	if (parent !== null) {
		return { version: "v2", folders: [join(parent, NAME, name)], note: "memory, pids, cpu, freeze" };
	}
	const present = V1_CONTROLLERS.filter((controller) => existsSync(join(ROOT, controller, "cgroup.procs")));
	const usable = process.getuid?.() === 0 ? present : [];
	if (usable.includes("memory") && usable.includes("pids")) {
		const folders = usable.map((controller) => join(ROOT, controller, NAME, name));
		return { version: "v1", folders, note: usable.join(", ") };
	}
	return { version: "none", folders: [], note: "no writable cgroup: only per-process limits hold" };
}

export async function makeCgroup(cgroup: Cgroup, limits: Limits): Promise<void> {
	for (const folder of cgroup.folders) {
		await mkdir(folder, { recursive: true });
	}
	await weighAllBoxes(cgroup);
	if (cgroup.version === "v2") await limitV2(cgroup.folders[0]!, limits);
	if (cgroup.version === "v1") await limitV1(cgroup.folders, limits);
}

async function setFrozen(cgroup: Cgroup, frozen: boolean): Promise<boolean> {
	if (cgroup.version === "v2") {
		await writeFile(join(cgroup.folders[0]!, "cgroup.freeze"), frozen ? "1" : "0");
		return settled(join(cgroup.folders[0]!, "cgroup.events"), frozen ? "frozen 1" : "frozen 0");
	}
	const freezer = cgroup.folders.find((folder) => folder.startsWith(join(ROOT, "freezer")));
	if (freezer === undefined) return false;
	const state = join(freezer, "freezer.state");
	await writeFile(state, frozen ? "FROZEN" : "THAWED");
	return settled(state, frozen ? "FROZEN" : "THAWED");
}

/** False where nothing can be frozen, and when the group has gone meanwhile. */
export async function freezeCgroup(cgroup: Cgroup, frozen: boolean): Promise<boolean> {
	try {
		return await setFrozen(cgroup, frozen);
	} catch (error) {
		const { code } = error as NodeJS.ErrnoException;
		if (code === "ENOENT" || code === "ENODEV") return false;
		throw error;
	}
}

/** All boxes together weigh a quarter of one ordinary program: whoever serves, relays and judges answers at once beside them. */
async function weighAllBoxes(cgroup: Cgroup): Promise<void> {
	const cpu = cpuFolder(cgroup);
	if (cpu === undefined) return;
	const [file, weight] = cgroup.version === "v2" ? ["cpu.weight", "25"] : ["cpu.shares", "256"];
	await writeFile(join(dirname(cpu), file), weight).catch(ignoreMissing);
}

/** How much of busy processors a box gets beside others: little while it is made ahead of its time. */
export async function weighCgroup(cgroup: Cgroup, isAhead: boolean): Promise<void> {
	const cpu = cpuFolder(cgroup);
	if (cpu === undefined) return;
	const [file, ahead, usual] =
		cgroup.version === "v2" ? ["cpu.weight", "5", "100"] : ["cpu.shares", "50", "1024"];
	await writeFile(join(cpu, file), isAhead ? ahead : usual);
}

function cpuFolder(cgroup: Cgroup): string | undefined {
	if (cgroup.version === "v2") return cgroup.folders[0];
	return cgroup.folders.find((folder) => folder.startsWith(`${ROOT}/cpu/`));
}

/** Ends all that is in the group, also what is frozen: a frozen process dies only once it is thawed. */
export async function killCgroup(cgroup: Cgroup): Promise<void> {
	if (cgroup.version === "none" || !existsSync(cgroup.folders[0]!)) return;
	if (cgroup.version === "v2" && existsSync(join(cgroup.folders[0]!, "cgroup.kill"))) {
		await writeFile(join(cgroup.folders[0]!, "cgroup.kill"), "1");
		return;
	}
	for (const pid of await processesOf(cgroup)) killProcess(pid);
	await freezeCgroup(cgroup, false);
	for (const pid of await processesOf(cgroup)) killProcess(pid);
}

/** Ends all but `spared`, again and again while more appear. A crowd that forks faster is the init's to end, which then can. */
export async function clearCgroup(cgroup: Cgroup, spared: ReadonlySet<number>): Promise<void> {
	for (let round = 0; round < CLEAR_ROUNDS; round += 1) {
		const doomed = (await processesOf(cgroup)).filter((pid) => !spared.has(pid));
		if (doomed.length === 0) return;
		for (const pid of doomed) killProcess(pid);
		await sleep(CLEAR_EVERY_MS);
	}
}

export async function removeCgroup(cgroup: Cgroup): Promise<void> {
	for (const folder of cgroup.folders) await removeFolder(folder);
}

export async function processesOf(cgroup: Cgroup): Promise<number[]> {
	const found = new Set<number>();
	for (const folder of cgroup.folders) {
		const text = await readFile(join(folder, "cgroup.procs"), "utf8").catch(() => "");
		for (const line of text.split("\n")) if (line !== "") found.add(Number(line));
	}
	return [...found];
}

async function limitV2(folder: string, limits: Limits): Promise<void> {
	await writeFile(join(folder, "memory.max"), String(limits.memoryBytes));
	await writeFile(join(folder, "memory.swap.max"), "0").catch(ignoreMissing);
	await writeFile(join(folder, "pids.max"), String(limits.pids));
	await writeFile(join(folder, "cpu.max"), `${Math.round(limits.cpus * CPU_PERIOD_US)} ${CPU_PERIOD_US}`);
}

async function limitV1(folders: string[], limits: Limits): Promise<void> {
	for (const folder of folders) {
		if (folder.startsWith(`${ROOT}/memory/`)) {
			await writeFile(join(folder, "memory.limit_in_bytes"), String(limits.memoryBytes));
			await writeFile(join(folder, "memory.memsw.limit_in_bytes"), String(limits.memoryBytes)).catch(
				ignoreMissing,
			);
		}
		if (folder.startsWith(`${ROOT}/pids/`)) await writeFile(join(folder, "pids.max"), String(limits.pids));
		if (folder.startsWith(`${ROOT}/cpu/`)) {
			await writeFile(join(folder, "cpu.cfs_period_us"), String(CPU_PERIOD_US));
			await writeFile(join(folder, "cpu.cfs_quota_us"), String(Math.round(limits.cpus * CPU_PERIOD_US)));
		}
	}
}

/** A group below our own, or below the root, whose children may use the controllers we need. */
async function findV2Parent(): Promise<string | null> {
	if (!existsSync(join(ROOT, "cgroup.controllers"))) return null;
	const own = /^0::(.*)$/m.exec(await readFile("/proc/self/cgroup", "utf8"))?.[1] ?? "/";
	for (const candidate of new Set([join(ROOT, own, ".."), join(ROOT, own), ROOT])) {
		if (!candidate.startsWith(ROOT)) continue;
		if (await offersControllers(candidate)) return candidate;
	}
	return null;
}

async function offersControllers(folder: string): Promise<boolean> {
	try {
		await access(join(folder, "cgroup.procs"), constants.W_OK);
		await mkdir(join(folder, NAME), { recursive: true });
		await enable(folder);
		await enable(join(folder, NAME));
		const enabled = await readFile(join(folder, NAME, "cgroup.subtree_control"), "utf8");
		return ["memory", "pids", "cpu"].every((controller) => enabled.split(/\s+/).includes(controller));
	} catch {
		return false;
	}
}

async function enable(folder: string): Promise<void> {
	const file = join(folder, "cgroup.subtree_control");
	const enabled = (await readFile(file, "utf8")).split(/\s+/);
	const missing = ["memory", "pids", "cpu"].filter((controller) => !enabled.includes(controller));
	if (missing.length > 0) await writeFile(file, missing.map((controller) => `+${controller}`).join(" "));
}

async function settled(file: string, wanted: string): Promise<boolean> {
	for (let attempt = 0; attempt < 100; attempt += 1) {
		if ((await readFile(file, "utf8")).includes(wanted)) return true;
		await sleep(2);
	}
	return false;
}

/** A group can be removed only when its last process has been reaped, which is a matter of milliseconds. */
async function removeFolder(folder: string): Promise<void> {
	for (let attempt = 0; ; attempt += 1) {
		try {
			return await rmdir(folder);
		} catch (error) {
			const { code } = error as NodeJS.ErrnoException;
			if (code === "ENOENT") return;
			if (code !== "EBUSY" || attempt >= REMOVE_ATTEMPTS) throw error;
			await sleep(Math.min(5 + attempt, 50));
		}
	}
}

/** 0 would be every process of our own group: the kernel writes it for those that we cannot see. */
export function killProcess(pid: number): void {
	if (pid <= 0) return;
	try {
		process.kill(pid, "SIGKILL");
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
	}
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
	if (error.code !== "ENOENT" && error.code !== "EOPNOTSUPP" && error.code !== "EACCES") throw error;
}
