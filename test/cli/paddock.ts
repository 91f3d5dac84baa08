import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const LAUNCHER = fileURLToPath(new URL("../../bin/paddock.mjs", import.meta.url));

export interface Ended {
	code: number | null;
	signal: NodeJS.Signals | null;
	stdout: string;
	stderr: string;
}

export interface StartOptions {
	node?: string;
	/** As the README says it. */
	npx?: boolean;
	env?: Record<string, string>;
}

/** The program as people start it, with a data folder of its own. */
export class Paddock implements AsyncDisposable {
	readonly home: string;

	private constructor(home: string) {
		this.home = home;
	}

	static async open(): Promise<Paddock> {
		return new Paddock(await mkdtemp(join(tmpdir(), "paddock-cli-")));
	}

	start(args: readonly string[], options: StartOptions = {}): Started {
		const [program, ...first] = options.npx
			? ["npx", "paddock"]
			: [options.node ?? process.execPath, LAUNCHER];
		const child = spawn(program!, [...first, ...args], {
			cwd: dirname(dirname(LAUNCHER)),
			env: { PATH: process.env.PATH, HOME: this.home, PADDOCK_HOME: join(this.home, "data"), ...options.env },
			stdio: ["ignore", "pipe", "pipe"],
		});
		return new Started(child);
	}

	run(args: readonly string[], options: StartOptions = {}): Promise<Ended> {
		return this.start(args, options).ended;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await rm(this.home, { recursive: true, force: true });
	}
}

export class Started {
	readonly child: ChildProcess;
	readonly ended: Promise<Ended>;
	stdout = "";
	stderr = "";

	constructor(child: ChildProcess) {
		this.child = child;
		child.stdout?.setEncoding("utf8").on("data", (text: string) => {
			this.stdout += text;
		});
		child.stderr?.setEncoding("utf8").on("data", (text: string) => {
			this.stderr += text;
		});
		this.ended = new Promise((resolve, reject) => {
			child.once("error", reject);
			child.once("close", (code, signal) =>
				resolve({ code, signal, stdout: this.stdout, stderr: this.stderr }),
			);
		});
	}
}
