import { readFileSync } from "node:fs";
import { BOX_MARK, type InitConfig } from "../wire.ts";
import { killEverything, removeSharedMemory } from "./libc.ts";
import { descendantsOf, processes, reapOrphans } from "./processes.ts";

const PATIENCE_MS = 10_000;
const LOOK_EVERY_MS = 5;

/**
 * Ends everything in the box but this process. True when nothing is left: what was killed is listed until it is reaped, so that an empty
 * table is what counts, not the call.
 */
export async function killAll(config: InitConfig): Promise<boolean> {
	const end = config.ownPidNamespace ? killNamespace : () => killOurs(config.boxId);
	for (const deadline = performance.now() + PATIENCE_MS; performance.now() < deadline; ) {
		if (end() === 0) return true;
		await pause(LOOK_EVERY_MS);
	}
	return false;
}

/** In a pid namespace of its own, one call ends all the others, fork bombs included. Says how many there were. */
function killNamespace(): number {
	killEverything();
	for (const id of sharedMemory()) removeSharedMemory(id);
	reapOrphans();
	return processes().filter(({ pid, isZombie }) => pid !== process.pid && !isZombie).length;
}

/** Memory that belongs to no process would fill the box for good. The second word of a line is its name. */
function sharedMemory(): number[] {
	const lines = readFileSync("/proc/sysvipc/shm", "latin1").trim().split("\n").slice(1);
	return lines.map((line) => Number(line.trim().split(/\s+/)[1]));
}

/** Without one: what descends from this process, which adopts its orphans, and what still carries the box's mark. */
function killOurs(boxId: string): number {
	const doomed = new Set(
		[...descendantsOf(process.pid), ...marked(boxId)].filter(isAlive).map(({ pid }) => pid),
	);
	for (const pid of doomed) killOne(pid);
	reapOrphans();
	return doomed.size;
}

function isAlive({ isZombie }: { isZombie: boolean }): boolean {
	return !isZombie;
}

function marked(boxId: string) {
	const mark = `${BOX_MARK}=${boxId}\0`;
	return processes().filter(({ pid }) => {
		if (pid === process.pid) return false;
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

const pause = (milliseconds: number) => new Promise((done) => setTimeout(done, milliseconds));
