import { readdirSync, readFileSync } from "node:fs";
import { reap } from "./libc.ts";

/** How soon after a death the dead are looked for: many often die together. */
const REAP_AFTER_MS = 20;

export interface Process {
	pid: number;
	parent: number;
	isZombie: boolean;
}

/** Every process this one can see. */
export function processes(): Process[] {
	return readdirSync("/proc")
		.filter((name) => /^\d+$/.test(name))
		.flatMap((name) => toProcess(Number(name)) ?? []);
}

export function isAlive(pid: number): boolean {
	return toProcess(pid)?.isZombie === false;
}

/** All that was started by `root` or by its descendants, as long as orphans come back to it. */
export function descendantsOf(root: number): Process[] {
	const children = new Map<number, Process[]>();
	for (const one of processes()) children.set(one.parent, [...(children.get(one.parent) ?? []), one]);
	const found: Process[] = [];
	for (const parents = [root]; parents.length > 0; ) {
		const next = children.get(parents.pop()!) ?? [];
		found.push(...next);
		parents.push(...next.map(({ pid }) => pid));
	}
	return found;
}

/** Pids the runtime waits for itself. */
const awaited = new Set<number>();

export function awaits(pid: number): void {
	awaited.add(pid);
}

export function awaitsNoLonger(pid: number): void {
	awaited.delete(pid);
}

let isDue = false;

/** Orphans are this process's to bury. */
export function reapSoon(): void {
	if (isDue) return;
	isDue = true;
	setTimeout(() => {
		isDue = false;
		reapOrphans();
	}, REAP_AFTER_MS);
}

export function reapOrphans(): void {
	for (const { pid, parent, isZombie } of processes())
		if (isZombie && parent === process.pid && !awaited.has(pid)) reap(pid);
}

/** The name in the middle may hold anything, brackets too. */
function toProcess(pid: number): Process | null {
	try {
		const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
		const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
		return { pid, parent: Number(parent), isZombie: state === "Z" || state === "X" };
	} catch {
		return null;
	}
}
