import { readFileSync } from "node:fs";

/**
 * Tells a process from a later one of the same number: the clock ticks since boot at which it was started. Null when there is no such
 * process, or only its remains.
 */
export function startTimeOf(pid: number): string | null {
	const stat = readStat(pid);
	if (stat === null) return null;
	// The program's name in brackets may hold anything; the fields after it may not.
	const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
	return fields[0] === "Z" || fields[0] === "X" ? null : (fields[19] ?? null);
}

function readStat(pid: number): string | null {
	try {
		return readFileSync(`/proc/${pid}/stat`, "utf8");
	} catch {
		return null;
	}
}
