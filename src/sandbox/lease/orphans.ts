import { readdir, readFile, rm } from "node:fs/promises";
import { BOX_MARK } from "../box/wire.ts";
import { killCgroup, killProcess, removeCgroup } from "../local/cgroup.ts";
import type { Lease } from "./lease.ts";

const ROUNDS = 50;

/** Its owner is dead: nobody knows how far the box had come, so its uid or mark is searched for as well. */
export async function destroyOrphan(lease: Lease): Promise<void> {
	await killCgroup(lease.cgroup);
	await killStragglers(lease);
	await destroyRemains(lease);
}

/** The box is dead; whatever still runs for it is ended, and its folders go. */
export async function destroyRemains(lease: Lease): Promise<void> {
	await killCgroup(lease.cgroup);
	if (lease.cgroup.version === "none") await killStragglers(lease);
	await removeCgroup(lease.cgroup);
	await rm(lease.runDirectory, { recursive: true, force: true });
}

async function killStragglers({ uid, boxId }: Lease): Promise<void> {
	if (uid === null) await killMarked(boxId);
	else await killUid(uid);
}

/** Every process of a uid that belongs to one box alone. */
export function killUid(uid: number): Promise<void> {
	const line = new RegExp(`^Uid:\\t${uid}\\t`, "m");
	return killWhere(async (pid) => line.test(await readProc(pid, "status")));
}

/** Every process that was started with this box's mark. */
export function killMarked(boxId: string): Promise<void> {
	const mark = `\0${BOX_MARK}=${boxId}\0`;
	return killWhere(async (pid) => `\0${await readProc(pid, "environ")}\0`.includes(mark));
}

/** Until a look finds none: a process may fork between the look and the kill. */
async function killWhere(belongs: (pid: number) => Promise<boolean>): Promise<void> {
	for (let round = 0; round < ROUNDS; round += 1) {
		const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
		const found: number[] = [];
		for (const pid of pids) if ((await belongs(pid)) && !(await isDead(pid))) found.push(pid);
		if (found.length === 0) return;
		for (const pid of found) killProcess(pid);
	}
}

async function isDead(pid: number): Promise<boolean> {
	return /^State:\t[ZX]/m.test(await readProc(pid, "status"));
}

/** Empty when the process has gone meanwhile, or is none of our business. */
function readProc(pid: number, file: string): Promise<string> {
	return readFile(`/proc/${pid}/${file}`, "latin1").catch(() => "");
}
