import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findAgentBinary } from "../../host/binary.ts";
import { Tail } from "../../host/tail.ts";
import { lookInTurn } from "../availability.ts";
import { openBox } from "../box/box.ts";
import { initConfig, type Launched } from "../box/launch.ts";
import { OpenBoxes } from "../box/open-boxes.ts";
import { RUN_UNTRUSTED, runUntrustedTool } from "../box/run-untrusted.ts";
import { stageInit } from "../box/staging.ts";
import type { InitConfig } from "../box/wire.ts";
import { dropLease, reapLeases, takeLease } from "../lease/lease.ts";
import { destroyOrphan, destroyRemains, killMarked } from "../lease/orphans.ts";
import { requireOwnFolder } from "../lease/own-folder.ts";
import { type Availability, type Backend, type OpenOptions, refuseFolder, type Sandbox } from "../sandbox.ts";

export interface ProcessOptions {
	/** Called each time a box is opened. */
	warn: (message: string) => void;
	runRoot?: string;
	agentBinary?: string;
}

/** Plain processes in a folder of their own: no isolation at all, for those who ask for it by name. */
export async function openProcessBackend(options: ProcessOptions): Promise<Backend> {
	return new ProcessBackend(options);
}

class ProcessBackend implements Backend {
	readonly name = "process";
	readonly #options: ProcessOptions;
	readonly #root: string;
	readonly #open = new OpenBoxes();

	constructor(options: ProcessOptions) {
		this.#options = options;
		this.#root = options.runRoot ?? join(tmpdir(), `paddock-process-${process.getuid?.() ?? 0}`);
	}

	available(): Promise<Availability> {
		const look = async () => this.#options.agentBinary ?? findAgentBinary();
		return lookInTurn([{ name: "agent binary", fix: "npm install", look }]);
	}

	async open(options: OpenOptions): Promise<Sandbox> {
		refuseFolder(this.name, options);
		this.#options.warn(
			"sandbox `process` isolates nothing: the agent runs as you, with your files and network",
		);
		await requireOwnFolder(this.#root);
		const binary = this.#options.agentBinary ?? findAgentBinary();
		const boxId = `box-${randomBytes(6).toString("hex")}`;
		const runDirectory = join(this.#root, "boxes", boxId);
		const cgroup = { version: "none" as const, folders: [], note: "no isolation" };
		const { lease, path } = await takeLease(this.#leases, false, async () => ({
			boxId,
			runDirectory,
			cgroup,
		}));
		const home = join(runDirectory, "home");
		const temporary = join(runDirectory, "tmp");
		const bin = join(runDirectory, "bin");
		await mkdir(home, { recursive: true, mode: 0o700 });
		await mkdir(temporary, { recursive: true, mode: 0o700 });
		await mkdir(bin, { mode: 0o700 });
		await writeFile(join(bin, RUN_UNTRUSTED), runUntrustedTool(binary), { mode: 0o500 });
		const gateway = options.role !== "verifier";
		const init = initConfig({
			...{ boxId, run: runDirectory, gateway, egress: false, processes: options.spec.pids },
			plain: { home, temporary, bin },
		});
		const box = await openBox({
			id: boxId,
			backend: this.name,
			home,
			agentBinary: binary,
			runDirectory,
			signal: options.signal,
			onGateway: gateway ? (connection) => options.onGateway(connection, boxId) : null,
			launch: async () => startPlain(binary, await stageInit(this.#root), init),
			release: async () => {
				await destroyRemains(lease);
				await dropLease(path);
			},
		});
		return this.#open.add(box);
	}

	async reap(): Promise<number> {
		await requireOwnFolder(this.#root);
		return reapLeases(this.#leases, destroyOrphan);
	}

	[Symbol.asyncDispose](): Promise<void> {
		return this.#open[Symbol.asyncDispose]();
	}

	get #leases(): string {
		return join(this.#root, "leases");
	}
}

async function startPlain(binary: string, program: string, init: InitConfig): Promise<Launched> {
	const child = spawn(binary, [program, JSON.stringify(init)], {
		cwd: "/",
		env: { BUN_BE_BUN: "1", HOME: "/nowhere", PATH: "/usr/bin:/bin" },
		stdio: ["ignore", "pipe", "pipe"],
		detached: true,
	});
	const words = new Tail(4096);
	child.stdout.on("data", (chunk: Buffer) => words.push(chunk));
	child.stderr.on("data", (chunk: Buffer) => words.push(chunk));
	const exited = new Promise<string>((resolve) => {
		child.once("error", (error) => resolve(`the box could not be started: ${error.message}`));
		child.once("exit", (code, signal) =>
			resolve(words.text().trim() || `the box ended with ${signal ?? code}`),
		);
	});
	return {
		facts: { isolation: "none", network: "the host's", cgroup: "none" },
		exited,
		kill: async () => {
			child.kill("SIGKILL");
			await killMarked(init.boxId);
			await exited;
		},
	};
}
