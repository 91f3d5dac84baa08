import { readdir, readFile, readlink } from "node:fs/promises";
import { startTimeOf } from "../../host/process.ts";
import { isAlive } from "./signals.ts";

/** A process as the system knows it: numbers are given again, but not with the same start. */
export interface ProcessIdentity {
	pid: number;
	/** In the system's ticks since boot. */
	startTime: string;
}

/** Null when there is no such process. */
export function identify(pid: number): ProcessIdentity | null {
	const startTime = startTimeOf(pid);
	return startTime === null ? null : { pid, startTime };
}

export function isSame({ pid, startTime }: ProcessIdentity): boolean {
	return startTimeOf(pid) === startTime;
}

/** Which processes were started with this variable: those of a server that is gone are found by it, wherever they went. */
export async function withVariable(assignment: string): Promise<number[]> {
	const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
	const found: number[] = [];
	for (const pid of pids) {
		// Others' processes, and those that ended meanwhile, cannot be read.
		const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
		if (pid !== process.pid && environment.split("\0").includes(assignment)) found.push(pid);
	}
	return found;
}

/** Whether this process listens on the port of loopback; null when it cannot be looked into. */
export async function listensOn(pid: number, port: number): Promise<boolean | null> {
	const hex = port.toString(16).toUpperCase().padStart(4, "0");
	const tables = await Promise.all(
		["tcp", "tcp6"].map((name) => readFile(`/proc/${pid}/net/${name}`, "utf8").catch(() => "")),
	);
	const rows = tables
		.join("\n")
		.split("\n")
		.map((row) => row.trim().split(/\s+/));
	const inodes = rows.filter((row) => row[3] === "0A" && row[1]?.endsWith(`:${hex}`)).map((row) => row[9]);
	try {
		const names = await readdir(`/proc/${pid}/fd`);
		const links = await Promise.all(names.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => "")));
		return inodes.some((inode) => links.includes(`socket:[${inode}]`));
	} catch {
		return isAlive(pid) ? null : false;
	}
}
