import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, constants, openSync, readFileSync } from "node:fs";
import { constants as os } from "node:os";
import type { Readable, Writable } from "node:stream";
import { Tail } from "../../host/tail.ts";
import { type BoxSpec, WORKDIR } from "../../model/task.ts";
import { AGENT_PATH, BOX_BIN, BOX_RUN, INIT_PATH, type Launched } from "../box/launch.ts";
import { RUN_UNTRUSTED } from "../box/run-untrusted.ts";
import type { Staged } from "../box/staging.ts";
import { INIT_EXIT, type InitConfig } from "../box/wire.ts";
import { type Cgroup, clearCgroup, freezeCgroup, killCgroup, killProcess, weighCgroup } from "./cgroup.ts";
import { isOutOfMemory, memoryKills } from "./memory.ts";

const { signals } = os;
export const TMP_BYTES = 256 * 1024 * 1024;
export const SHM_BYTES = 64 * 1024 * 1024;

const ARGUMENTS_FD = 3;
const INFO_FD = 4;
/** The host's /proc: see `InitConfig`. */
export const PROC_FD = 5;
const OPEN_FILES = 8192;
const LOCKED_BYTES = 64 * 1024;
const KILLED = 128 + signals.SIGKILL;
const ENDS_OF_THE_HOSTS = new Set([0, INIT_EXIT.notGreeted, INIT_EXIT.noHost, 128 + signals.SIGTERM]);

export interface BwrapPlan {
	spec: BoxSpec;
	/** A dedicated uid, or null to run under the host program's own. */
	uid: number | null;
	staged: Staged;
	runDirectory: string;
	cgroup: Cgroup;
	init: InitConfig;
	facts: Record<string, unknown>;
	/** A folder of this machine in the place of the workdir. */
	folder?: string | undefined;
}

/**
 * Starts bubblewrap with an empty environment and its arguments by descriptor: /proc/1 inside then shows neither
 * our environment nor host paths. A tiny shell joins the cgroup and drops privileges first, so that nothing of the
 * box ever runs outside its limits.
 */
export async function startBwrap(plan: BwrapPlan): Promise<Launched> {
	const proc = openSync("/proc", constants.O_RDONLY | constants.O_DIRECTORY);
	const child = spawn("/bin/sh", ["-c", WRAPPER, "sh", ...wrapperArguments(plan)], {
		cwd: "/",
		env: {},
		// Out of the terminal's process group: Ctrl-C is for the program, which then closes its boxes in order.
		detached: true,
		stdio: ["ignore", "pipe", "pipe", "pipe", "pipe", proc],
	});
	closeSync(proc);
	const words = new Tail(4096);
	child.stdout?.on("data", (chunk: Buffer) => words.push(chunk));
	child.stderr?.on("data", (chunk: Buffer) => words.push(chunk));
	const exited = exitOf(child, words);
	const pipe = child.stdio[ARGUMENTS_FD] as Writable;
	pipe.on("error", () => {});
	pipe.end(`${bwrapArguments(plan).join("\0")}\0`);
	const inner = innerPid((child.stdio as unknown[])[INFO_FD] as Readable);
	let frozen = false;
	const setFrozen = async (wanted: boolean) => {
		frozen = wanted;
		return freezeCgroup(plan.cgroup, wanted);
	};
	const clear = async () => {
		const init = await inner;
		if (init !== null && child.pid !== undefined) await clearCgroup(plan.cgroup, new Set([child.pid, init]));
	};
	return {
		facts: plan.facts,
		exited,
		clear,
		makeRoom: async () => {
			if (!(await isOutOfMemory(plan.cgroup))) return false;
			await clear();
			return true;
		},
		hasBrokenItself: async () => hasCrashed(child.exitCode, await memoryKills(plan.cgroup)),
		kill: async () => {
			await killBwrap(child, inner, plan.cgroup);
			// A frozen process dies only when it is thawed.
			if (frozen) await setFrozen(false);
			await exited;
		},
		freeze: () => setFrozen(true),
		thaw: async () => {
			await weighCgroup(plan.cgroup, false);
			await setFrozen(false);
		},
	};
}

/** $1: how many cgroup.procs files follow; then the files; then the command. */
const WRAPPER =
	'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1" || exit 90; shift; n=$((n-1)); done; exec "$@"';

export function wrapperArguments(plan: BwrapPlan): string[] {
	const { spec, uid, cgroup } = plan;
	const drop =
		uid === null
			? ["setpriv", "--no-new-privs", "--"]
			: ["setpriv", "--reuid", `${uid}`, "--regid", `${uid}`, "--clear-groups", "--no-new-privs", "--"];
	return [
		`${cgroup.folders.length}`,
		...cgroup.folders.map((folder) => `${folder}/cgroup.procs`),
		"/usr/bin/prlimit",
		`--fsize=${spec.fileSizeMb * 1024 * 1024}`,
		`--nofile=${Math.min(OPEN_FILES, hardLimitOfFiles())}`,
		"--core=0",
		`--memlock=${LOCKED_BYTES}`,
		"--",
		`/usr/bin/${drop[0]}`,
		...drop.slice(1),
		"/usr/bin/bwrap",
		"--args",
		`${ARGUMENTS_FD}`,
		"--",
		AGENT_PATH,
		INIT_PATH,
		JSON.stringify({ ...plan.init, procDescriptor: PROC_FD }),
	];
}

/** A limit can be lowered by anyone and raised by few. */
function hardLimitOfFiles(): number {
	const hard = /^Max open files\s+\S+\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
	return hard === undefined ? OPEN_FILES : Number(hard);
}

export function bwrapArguments({ spec, staged, runDirectory, folder }: BwrapPlan): string[] {
	const size = (bytes: number) => ["--size", `${bytes}`];
	return [
		...["--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"],
		...["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", "--hostname", "sandbox"],
		// bubblewrap's own first process would be one that the agent can write to; ours hides itself.
		"--as-pid-1",
		...["--ro-bind", "/usr", "/usr"],
		...staged.links.flatMap(({ from, to }) => ["--symlink", to, from]),
		...["--ro-bind", staged.etc, "/etc"],
		...staged.etcFolders.flatMap((folder) => ["--ro-bind", folder, folder]),
		...[
			"--proc",
			"/proc",
			// Nobody's memory can be written through it then.
			"--remount-ro",
			"/proc",
			"--dev",
			"/dev",
			...size(SHM_BYTES),
			"--tmpfs",
			"/dev/shm",
			"--remount-ro",
			"/dev",
		],
		...["--perms", "1777", ...size(TMP_BYTES), "--tmpfs", "/tmp"],
		...["--perms", "0755", ...size(spec.diskMb * 1024 * 1024), "--tmpfs", "/home/user"],
		...(folder === undefined ? [] : ["--bind", folder, WORKDIR]),
		...["--ro-bind", staged.agent, AGENT_PATH, "--ro-bind", staged.init, INIT_PATH],
		...["--ro-bind", staged.runUntrusted, `${BOX_BIN}/${RUN_UNTRUSTED}`],
		// Bun reads configuration from where it starts: never a folder the agent can write to.
		...["--ro-bind", runDirectory, BOX_RUN, "--chdir", "/", "--remount-ro", "/"],
		...["--setenv", "BUN_BE_BUN", "1", "--setenv", "HOME", "/nowhere", "--setenv", "PATH", "/usr/bin:/bin"],
		...["--info-fd", `${INFO_FD}`],
	];
}

/**
 * Bubblewrap ends with its init's code, 128 and more for a signal. The init itself ends when the host is gone or out of reach, and only
 * the host can ask it to; SIGKILL is the kernel's when memory is used up, else somebody's outside. Every other end is a fault of its
 * own, and what runs in the box may have brought it about.
 */
function hasCrashed(exitCode: number | null, killsForMemory: number): boolean {
	if (exitCode === null || ENDS_OF_THE_HOSTS.has(exitCode)) return false;
	return exitCode !== KILLED || killsForMemory > 0;
}

/** The inner pid 1 first: when the outer process goes first, the dead inner one lingers as a zombie of the machine's. */
async function killBwrap(child: ChildProcess, inner: Promise<number | null>, cgroup: Cgroup): Promise<void> {
	if (child.exitCode !== null || child.signalCode !== null) return;
	const pid = await Promise.race([inner, new Promise<null>((done) => setTimeout(done, 1_000, null))]);
	if (child.exitCode !== null || child.signalCode !== null) return;
	if (pid === null) child.kill("SIGKILL");
	else killProcess(pid);
	const fallback = setTimeout(async () => {
		child.kill("SIGKILL");
		await killCgroup(cgroup).catch(() => {});
	}, 2_000);
	child.once("exit", () => clearTimeout(fallback));
}

function exitOf(child: ChildProcess, words: Tail): Promise<string> {
	return new Promise((resolve) => {
		child.once("error", (error) => resolve(`the box could not be started: ${error.message}`));
		child.once("exit", (code, signal) => {
			const said = words.text().trim().split("\n").at(-1);
			resolve(said ? `the box ended: ${said}` : `the box ended with ${signal ?? `code ${code}`}`);
		});
	});
}

/**
 * The pid of the box's first process as the host sees it; null when bubblewrap never got that far. The pipe is read
 * to its end: closed early, it would kill the writer.
 */
function innerPid(info: Readable): Promise<number | null> {
	return new Promise((resolve) => {
		let text = "";
		info.on("data", (chunk: Buffer) => {
			text += chunk.toString();
			const pid = /"child-pid":\s*(\d+)\D/.exec(text)?.[1];
			if (pid !== undefined) resolve(Number(pid));
		});
		info.on("close", () => resolve(null));
		info.on("error", () => resolve(null));
	});
}
