import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";

const ENVD = join(import.meta.dirname, "e2b-envd-program.ts");

/**
 * A stand-in of one E2B machine: a process table, network and writable folders of its own over this system's
 * programs, with a root and a user. Real processes, no virtual machine.
 */
export class StandInMachine {
	readonly socket: string;
	readonly #folder: string;
	readonly #child: ChildProcess;

	private constructor(folder: string, child: ChildProcess) {
		this.#folder = folder;
		this.#child = child;
		this.socket = join(folder, "run/s");
	}

	/** `agent`: the OpenCode that its template brings, if any. */
	static async start(folder: string, agent: string | null): Promise<StandInMachine> {
		await mkdir(join(folder, "run"), { recursive: true });
		await mkdir(join(folder, "agent"), { mode: 0o755 });
		const child = spawn(
			"/usr/bin/bwrap",
			[
				...["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp"],
				...["--tmpfs", "/home", "--tmpfs", "/root", "--tmpfs", "/opt", "--tmpfs", "/run"],
				...["--bind", join(folder, "agent"), "/opt/agent"],
				...["--bind", join(folder, "run"), "/run/envd", "--hostname", "e2b.local"],
				// Wherever this repository lies, its place may be one that the machine covers with its own.
				...["--ro-bind", process.execPath, "/run/node", "--ro-bind", ENVD, "/run/envd-program.ts"],
				...(agent === null ? [] : ["--ro-bind", agent, "/opt/agent/opencode"]),
				...["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent"],
				...["--", "/run/node", "/run/envd-program.ts", "/run/envd/s"],
			],
			{ cwd: "/", env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" }, stdio: ["ignore", "pipe", "inherit"] },
		);
		const ready = once(child.stdout!, "data");
		const ended = once(child, "exit").then(([code]) => {
			throw new Error(`the stand-in machine ended with ${code}`);
		});
		ended.catch(() => {});
		await Promise.race([ready, ended]);
		return new StandInMachine(folder, child);
	}

	/** What was installed in it, for a template of its own. */
	async snapshot(to: string): Promise<void> {
		await copyFile(join(this.#folder, "agent/opencode"), to);
	}

	async stop(): Promise<void> {
		if (this.#child.exitCode === null && this.#child.signalCode === null) {
			const gone = once(this.#child, "exit");
			this.#child.kill("SIGKILL");
			await gone;
		}
		await rm(this.#folder, { recursive: true, force: true });
	}
}
