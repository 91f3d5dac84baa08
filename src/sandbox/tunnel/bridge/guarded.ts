import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import type { BridgeOrder, Door } from "../wire.ts";

const WORDS_LENGTH = 4096;
/** Beyond its patience, until even a box that cannot be killed is given up. */
const GIVE_UP_MS = 5_000;

/** The box this process has been told to start, and to end. */
export class Guarded {
	readonly order: BridgeOrder;
	readonly #onGone: (words: string) => void;
	#child: ChildProcess | null = null;
	#words = "";
	#ending = false;
	#gone = false;

	/** `onGone` hears what the box said last. */
	constructor(order: BridgeOrder, onGone: (words: string) => void) {
		this.order = order;
		this.#onGone = onGone;
	}

	/** Makes the box's folder and doors, then starts it. */
	open(admit: (door: Door, socket: Socket) => void): void {
		try {
			this.#makeFolder();
		} catch (error) {
			this.#leave((error as Error).message);
			return;
		}
		const doors = Object.entries(this.order.sockets) as [Door, string][];
		let waiting = doors.length;
		for (const [door, path] of doors) {
			const server = createServer({ allowHalfOpen: true }, (socket) => admit(door, socket));
			server.on("error", (error) => this.#leave(error.message));
			server.listen({ path }, () => {
				this.#handOver(path);
				waiting -= 1;
				if (waiting === 0) this.#start();
			});
		}
	}

	/** With walls, the box's first process takes everything along; without, its init clears up when we hang up. */
	end(hangUp: () => void): void {
		if (this.#ending) return;
		this.#ending = true;
		if (this.#child === null) {
			this.#leave(this.#words);
			return;
		}
		hangUp();
		const { patienceMs } = this.order;
		setTimeout(() => this.#killGroup(), patienceMs);
		setTimeout(() => this.#leave(this.#words), patienceMs + GIVE_UP_MS);
	}

	#makeFolder(): void {
		const { folder, folders, files, socketOwner } = this.order;
		// Entered by the box's own user where that is not ours, but never listed or changed.
		const mode = socketOwner === undefined ? 0o700 : 0o711;
		mkdirSync(folder, { recursive: true, mode });
		writeFileSync(join(folder, "guardian"), `${process.pid} ${startTime()}\n`);
		for (const [name, content] of Object.entries(files)) {
			mkdirSync(join(folder, name, ".."), { recursive: true, mode: 0o700 });
			writeFileSync(join(folder, name), Buffer.from(content, "base64"));
		}
		for (const name of folders) mkdirSync(join(folder, name), { recursive: true, mode });
	}

	#handOver(path: string): void {
		const { socketOwner } = this.order;
		chmodSync(path, 0o600);
		if (socketOwner !== undefined) chownSync(path, socketOwner, socketOwner);
	}

	#start(): void {
		if (this.#ending) {
			this.#leave(this.#words);
			return;
		}
		const { argv, env } = this.order;
		const child = spawn(argv[0]!, argv.slice(1), {
			cwd: "/",
			env,
			detached: true,
			stdio: ["ignore", "pipe", "pipe"],
		});
		this.#child = child;
		const keep = (chunk: Buffer) => {
			this.#words = (this.#words + chunk).slice(-WORDS_LENGTH);
		};
		child.stdout?.on("data", keep);
		child.stderr?.on("data", keep);
		child.on("error", (error) => this.#leave(error.message));
		child.on("exit", () => this.#leave(this.#words));
	}

	#leave(words: string): void {
		if (this.#gone) return;
		this.#gone = true;
		this.#ending = true;
		this.#killGroup();
		rmSync(this.order.folder, { recursive: true, force: true });
		this.#onGone(words);
	}

	#killGroup(): void {
		const pid = this.#child?.pid;
		if (pid === undefined) return;
		try {
			process.kill(-pid, "SIGKILL");
		} catch {
			// Already gone.
		}
	}
}

/** Tells this process from a later one of the same number. */
function startTime(): string {
	const stat = readFileSync("/proc/self/stat", "latin1");
	return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}
