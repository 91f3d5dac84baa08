import { closeSync, openSync, writeSync } from "node:fs";
import { type InitConfig, PROCESS_HEADROOM } from "../wire.ts";
import { hideFromOthers, limitProcesses } from "./libc.ts";

/** What the kernel should kill first when memory runs out, and what it should spare. */
const OOM_SCORE = { command: "300", init: "0" };

/** Holds commands to less than this process may have: a box full of theirs can still be cleared by it. */
export class Limits {
	/** Whether this process is hidden from the others of its uid. */
	readonly hidden: boolean;
	readonly #processes: number | undefined;
	readonly #oomScore: number | null;

	constructor(config: InitConfig) {
		// Once hidden, this process no longer gets at its own files below /proc.
		this.#oomScore = openOomScore(config.procDescriptor);
		this.hidden = hideFromOthers();
		// Set from within the box's user namespace, the limit counts the box's own processes and nobody else's.
		this.#processes = config.ownPidNamespace ? config.processes : undefined;
		this.#limit(0, PROCESS_HEADROOM, PROCESS_HEADROOM);
	}

	/** The limits hold before the command exists: a fork bomb would be faster. */
	start<Child extends { pid?: number | undefined }>(spawn: () => Child): Child {
		this.#score(OOM_SCORE.command);
		this.#limit(0, 0, PROCESS_HEADROOM);
		try {
			const child = spawn();
			if (child.pid !== undefined) this.#limit(child.pid, 0, 0);
			return child;
		} finally {
			this.#score(OOM_SCORE.init);
			this.#limit(0, PROCESS_HEADROOM, PROCESS_HEADROOM);
		}
	}

	#limit(pid: number, extra: number, mostExtra: number): void {
		if (this.#processes === undefined) return;
		limitProcesses(pid, this.#processes + extra, this.#processes + mostExtra);
	}

	#score(value: string): void {
		if (this.#oomScore === null) return;
		try {
			writeSync(this.#oomScore, value, 0);
		} catch {
			// Only a preference of the kernel's; the command runs either way.
		}
	}
}

/** Where /proc is read-only inside, the host lends its own for as long as this takes. */
function openOomScore(procDescriptor: number | undefined): number | null {
	const proc = procDescriptor === undefined ? "/proc" : `/proc/self/fd/${procDescriptor}`;
	try {
		return openSync(`${proc}/self/oom_score_adj`, "r+");
	} catch {
		return null;
	} finally {
		if (procDescriptor !== undefined) closeSync(procDescriptor);
	}
}
