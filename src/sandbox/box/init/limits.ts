import { accessSync, closeSync, constants, openSync, statSync, writeSync } from "node:fs";
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
		this.#limit(PROCESS_HEADROOM);
	}

	/**
	 * The limits hold before the command exists: a fork bomb would be faster. The reserve is given up by the command itself, since nobody
	 * in a box may set another's limits.
	 */
	start<Child>(argv: readonly string[], path: string, spawn: (argv: readonly string[]) => Child): Child {
		this.#score(OOM_SCORE.command);
		this.#limit(0);
		try {
			const isLimited = this.#processes !== undefined && isProgram(argv[0] ?? "", path);
			return spawn(isLimited ? [...giveUpReserve(this.#processes!), ...argv] : argv);
		} finally {
			this.#score(OOM_SCORE.init);
			this.#limit(PROCESS_HEADROOM);
		}
	}

	#limit(extra: number): void {
		if (this.#processes === undefined) return;
		limitProcesses(this.#processes + extra, this.#processes + PROCESS_HEADROOM);
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

/** What cannot be started is left to fail as such. */
function isProgram(name: string, path: string): boolean {
	const places = name.includes("/") ? [name] : path.split(":").map((folder) => `${folder}/${name}`);
	return places.some(isExecutable);
}

function isExecutable(path: string): boolean {
	try {
		accessSync(path, constants.X_OK);
		return statSync(path).isFile();
	} catch {
		return false;
	}
}

function giveUpReserve(processes: number): string[] {
	return ["/usr/bin/prlimit", `--nproc=${processes}:${processes}`, "--"];
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
