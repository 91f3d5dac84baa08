import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { startTimeOf } from "../../host/process.ts";

/** Names one process so well that a later process with the same pid is not mistaken for it. */
export interface ProcessIdentity {
	pid: number;
	/** Clock ticks since boot at which it started; empty where the system does not tell. */
	started: string;
	boot: string;
	/** The pid namespace: a pid means something only inside of it. */
	namespace: string;
	host: string;
}

/** How long one that cannot be looked up (another container) may be silent. */
export const SILENT_MS = 30_000;

export function ownIdentity(): ProcessIdentity {
	return {
		pid: process.pid,
		started: startTimeOf(process.pid) ?? "",
		boot: readOr("", () => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()),
		namespace: readOr("", () => readlinkSync("/proc/self/ns/pid")),
		host: hostname(),
	};
}

export function isAlive(other: ProcessIdentity, seenAt: number, now = Date.now()): boolean {
	const own = ownIdentity();
	if (other.boot === own.boot && other.namespace === own.namespace) {
		if (other.started === "") return respondsToSignals(other.pid);
		return startTimeOf(other.pid) === other.started;
	}
	if (other.host === own.host && other.boot !== own.boot) return false;
	return now - seenAt < SILENT_MS;
}

function respondsToSignals(pid: number): boolean {
	try {
		process.kill(pid, 0);
		return true;
	} catch (error) {
		return (error as NodeJS.ErrnoException).code === "EPERM";
	}
}

function readOr<T>(fallback: T, read: () => T): T {
	try {
		return read();
	} catch {
		return fallback;
	}
}
