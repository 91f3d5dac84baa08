import { type ChildProcess, spawn } from "node:child_process";
import { closeSync } from "node:fs";
import type { Socket } from "node:net";
import { type ExecRequest, FROM_BOX, type InitConfig, TO_BOX } from "../wire.ts";
import { finish, onFrames, send } from "./frames.ts";
import { Input } from "./input.ts";
import { makePipe, notifyOf } from "./libc.ts";
import type { Limits } from "./limits.ts";
import { Output } from "./output.ts";
import { awaits, awaitsNoLonger, isAlive } from "./processes.ts";
import { wake } from "./readiness.ts";

/** How long background children may keep the pipes of an ended command open without writing. */
const QUIET_MS = 200;

type Result =
	| { code: number | null; signal: NodeJS.Signals | null }
	| { spawnError: string; message: string };

/** Nonce → the command behind it. */
const running = new Map<string, Command>();

export function signalCommand(nonce: string, name: NodeJS.Signals): void {
	running.get(nonce)?.signal(name);
}

/** Whether it lives: the kernel may know of its end before this process has heard of it. */
export function isRunning(nonce: string): boolean {
	return running.get(nonce)?.isAlive ?? false;
}

/** Starts the command and stays with it to its end. */
export function runCommand(
	nonce: string,
	connection: Socket,
	request: ExecRequest,
	rest: Buffer,
	surroundings: { config: InitConfig; limits: Limits },
): void {
	let started: Started;
	try {
		started = start(request, surroundings);
	} catch (error) {
		finish(connection, toSpawnError(error as NodeJS.ErrnoException));
		return;
	}
	const command = new Command(started, connection, () => running.delete(nonce));
	running.set(nonce, command);
	command.follow(rest);
}

interface Started {
	process: ChildProcess;
	input: Input | null;
	outputs: Output[];
}

class Command {
	readonly #process: ChildProcess;
	readonly #input: Input | null;
	readonly #outputs: Output[];
	readonly #connection: Socket;
	readonly #forget: () => void;
	#exit: Result | null = null;
	#ended = false;
	#quiet: NodeJS.Timeout | undefined;

	constructor({ process, input, outputs }: Started, connection: Socket, forget: () => void) {
		this.#process = process;
		this.#input = input;
		this.#outputs = outputs;
		this.#connection = connection;
		this.#forget = forget;
	}

	follow(rest: Buffer): void {
		this.#process.on("error", (error) => this.#end(toSpawnError(error)));
		if (this.#process.pid === undefined) return;
		const { pid } = this.#process;
		send(this.#connection, FROM_BOX.started, JSON.stringify({ pid }));
		awaits(pid);
		this.#process.on("exit", (code, signal) => {
			awaitsNoLonger(pid);
			this.#exit = { code, signal };
			wake();
			this.#settle();
		});
		for (const output of this.#outputs) void output.relay(this.#connection, () => this.#settle());
		onFrames(this.#connection, rest, async (type, payload) => {
			if (type === TO_BOX.stdin) await this.#input?.write(payload);
			if (type === TO_BOX.stdinEnd) this.#input?.end();
		});
		this.#connection.on("end", () => this.#abandon());
		this.#connection.on("close", () => this.#abandon());
	}

	get isAlive(): boolean {
		const { pid } = this.#process;
		return this.#exit === null && pid !== undefined && isAlive(pid);
	}

	/** For the command and all it started in its process group. */
	signal(name: NodeJS.Signals): void {
		const { pid } = this.#process;
		if (pid === undefined) return;
		try {
			process.kill(-pid, name);
		} catch {
			// Already gone.
		}
	}

	/** Over when it has exited and its outputs are at their end, or quiet: background children may hold on to them. */
	#settle(): void {
		clearTimeout(this.#quiet);
		const exit = this.#exit;
		if (exit === null || this.#ended || this.#outputs.some((output) => output.sending)) return;
		if (this.#outputs.every((output) => output.ended)) this.#end(exit);
		else this.#quiet = setTimeout(() => this.#endIfQuiet(exit), QUIET_MS);
	}

	#endIfQuiet(exit: Result): void {
		if (this.#outputs.some((output) => output.hasMore)) this.#settle();
		else this.#end(exit);
	}

	/** The host hung up: it no longer wants the command. */
	#abandon(): void {
		if (!this.#ended) this.signal("SIGKILL");
		this.#end({ code: null, signal: "SIGKILL" });
	}

	#end(result: Result): void {
		if (this.#ended) return;
		this.#ended = true;
		clearTimeout(this.#quiet);
		this.#forget();
		this.#input?.end();
		for (const output of this.#outputs) output.close();
		finish(this.#connection, result);
	}
}

/**
 * Input and outputs are real pipes, made here: the runtime would give the child sockets, which cannot be reopened as
 * /dev/stdin and make bash take itself for a remote login. Without input a command reads from /dev/null, so that
 * tools which look for piped input find none.
 */
function start(request: ExecRequest, { config, limits }: { config: InitConfig; limits: Limits }): Started {
	const ours: number[] = [];
	const theirs: number[] = [];
	try {
		const make = (keep: "read" | "write") => {
			const pipe = makePipe();
			notifyOf(pipe[keep]);
			ours.push(pipe[keep]);
			theirs.push(keep === "read" ? pipe.write : pipe.read);
		};
		make("read");
		make("read");
		if (request.stdin) make("write");
		const [stdout, stderr, stdin] = theirs;
		const env = { ...config.env, ...request.env };
		const child = limits.start(request.argv, env.PATH ?? "", ([program, ...args]) =>
			spawn(program!, args, {
				cwd: request.cwd ?? config.home,
				env,
				detached: true,
				stdio: [stdin ?? "ignore", stdout!, stderr!],
			}),
		);
		const outputs = [new Output(FROM_BOX.stdout, ours[0]!), new Output(FROM_BOX.stderr, ours[1]!)];
		return { process: child, outputs, input: ours[2] === undefined ? null : new Input(ours[2]) };
	} catch (error) {
		for (const descriptor of ours) closeSync(descriptor);
		throw error;
	} finally {
		for (const descriptor of theirs) closeSync(descriptor);
	}
}

function toSpawnError(error: NodeJS.ErrnoException): Result {
	return { spawnError: error.code ?? "EIO", message: error.message };
}
