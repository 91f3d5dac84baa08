import { readdirSync, readFileSync } from "node:fs";
import { BOX_MARK, type InitConfig } from "../wire.ts";
import { killEverything } from "./libc.ts";

/** In a pid namespace of its own, one call ends everything but pid 1 and this process, fork bombs included. */
export async function killAll(config: InitConfig): Promise<boolean | number> {
	if (config.ownPidNamespace && process.pid < 64) {
		killEverything();
		return await goneExceptUs();
	}
	const doomed = new Set<number>();
	for (let round = 0; round < 20; round += 1) {
		const found = marked(config.boxId);
		if (found.length === 0) break;
		for (const pid of found) {
			doomed.add(pid);
			killOne(pid);
		}
		await pause(10);
	}
	return doomed.size;
}

/** A killed process stays listed until it is reaped, so wait for an empty table rather than for the call. */
async function goneExceptUs(): Promise<boolean> {
	for (let round = 0; round < 200; round += 1) {
		const left = pids().filter((pid) => pid !== 1 && pid !== process.pid && !isZombie(pid));
		if (left.length === 0) return true;
		killEverything();
		await pause(5);
	}
	return false;
}

function marked(boxId: string): number[] {
	const mark = `${BOX_MARK}=${boxId}\0`;
	return pids().filter((pid) => {
		if (pid === process.pid || isZombie(pid)) return false;
		try {
			return `${readFileSync(`/proc/${pid}/environ`, "latin1")}\0`.includes(mark);
		} catch {
			return false;
		}
	});
}

function killOne(pid: number): void {
	try {
		process.kill(pid, "SIGKILL");
	} catch {
		// Already gone.
	}
}

function pids(): number[] {
	return readdirSync("/proc")
		.filter((name) => /^\d+$/.test(name))
		.map(Number);
}

function isZombie(pid: number): boolean {
	try {
		const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
		return stat.slice(stat.lastIndexOf(")") + 2, stat.lastIndexOf(")") + 3) === "Z";
	} catch {
		return true;
	}
}

const pause = (milliseconds: number) => new Promise((done) => setTimeout(done, milliseconds));
