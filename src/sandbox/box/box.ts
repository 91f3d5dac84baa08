import type { Duplex, Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { RolloutError } from "../../errors.ts";
import type {
	BoxEntry,
	BoxFile,
	BoxProcess,
	ExecOptions,
	ExecResult,
	PackOptions,
	Sandbox,
} from "../sandbox.ts";
import { connect } from "./connect.ts";
import { Control } from "./control.ts";
import { exec } from "./exec.ts";
import { exists, list, readFile, request, writeFiles } from "./files.ts";
import type { BoxOptions, Doors, Launched } from "./launch.ts";
import { listenForBox } from "./listeners.ts";
import { spawn } from "./spawn.ts";

const READY_TIMEOUT_MS = 30_000;
const HELP_AFTER_MS = 2_000;
const ENDING_MS = 10_000;
const CLOSED = "box_closed";
/** Records of 64 KiB: fewer, larger steps through the pipe. */
const TAR_BLOCKS = ["-b", "128"];
/** tar went on to the end, but not everything could be packed or unpacked. */
const SOME_FAILED = 2;

/** Deeper than anybody can name; tar itself goes down until its stack is full. */
const MAX_DEPTH = 255;
/** $0: home; $1: how many paths follow; after them, tar with its options. */
const LISTED = `cd "$0" && paths=("\${@:2:$1}") && shift $(($1 + 1)) &&
	find "\${paths[@]}" -maxdepth ${MAX_DEPTH} -print0 2> /dev/null | "$@" --no-recursion --null --verbatim-files-from -cf - -T -`;

/** Opens the box's doors, launches it, and waits until its init has said hello. On failure nothing is left. */
export async function openBox(options: BoxOptions): Promise<Box> {
	const control = new Control(options.answerTimeoutMs);
	const doors: Doors = {
		acceptControl: (connection) => control.accept(connection),
		acceptGateway: (connection) => (options.onGateway ? options.onGateway(connection) : connection.destroy()),
		acceptEgress: (connection) => (options.onEgress ? options.onEgress(connection) : connection.destroy()),
	};
	const giveUp = () => control.lose(new RolloutError("sandbox", "open_aborted", "no longer wanted"));
	const timer = setTimeout(() => control.lose(notReady()), options.readyTimeoutMs ?? READY_TIMEOUT_MS);
	options.signal?.addEventListener("abort", giveUp);
	const undo: (() => Promise<void>)[] = [() => options.release()];
	try {
		options.signal?.throwIfAborted();
		const listeners = await listenForBox(options, doors);
		undo.unshift(() => listeners.close());
		const launched = await options.launch(doors);
		undo.unshift(() => launched.kill());
		void launched.exited.then((words) => control.lose(died(words)));
		const hello = await control.hello;
		return new Box(options, control, launched, hello.ports, hello.hidden, listeners);
	} catch (error) {
		for (const step of undo) await step();
		options.signal?.throwIfAborted();
		throw error;
	} finally {
		clearTimeout(timer);
		options.signal?.removeEventListener("abort", giveUp);
	}
}

/** The host's side of any box whose inside is the common init. */
export class Box implements Sandbox {
	readonly id: string;
	readonly backend: string;
	readonly home: string;
	readonly agentBinary: string;
	readonly gatewayUrl: string;
	readonly facts: Record<string, unknown>;
	readonly closed: Promise<void>;
	readonly #control: Control;
	readonly #launched: Launched;
	#isBroken = false;
	#isSuspected = false;

	constructor(
		options: BoxOptions,
		control: Control,
		launched: Launched,
		ports: number[],
		hidden: boolean,
		listeners: { close(): Promise<void> },
	) {
		this.id = options.id;
		this.backend = options.backend;
		this.home = options.home;
		this.agentBinary = options.agentBinary;
		this.gatewayUrl = `http://127.0.0.1:${ports[0] ?? 0}`;
		this.facts = { ...launched.facts, initHidden: hidden };
		this.#control = control;
		this.#launched = launched;
		control.makeRoom = () => this.#makeRoom();
		this.closed = launched.exited.then(async () => {
			// Asked now: what the answer is read from goes with the box.
			this.#isBroken = (await launched.hasBrokenItself?.()) ?? false;
			await listeners.close();
			await options.release();
		});
		this.closed.catch(() => {});
	}

	exec(command: string | readonly string[], options: ExecOptions = {}): Promise<ExecResult> {
		return exec(this.#control, command, options);
	}

	spawn(
		argv: readonly string[],
		options: { cwd?: string; env?: Record<string, string> } = {},
	): Promise<BoxProcess> {
		return spawn(this.#control, argv, options);
	}

	connect(port: number): Promise<Duplex> {
		return connect(this.#control, port);
	}

	readFile(path: string, options: { maxBytes?: number } = {}): Promise<Buffer> {
		return readFile(this.#control, path, options.maxBytes);
	}

	writeFile(path: string, data: string | Uint8Array, options: { executable?: boolean } = {}): Promise<void> {
		return this.writeFiles([{ path, data, ...options }]);
	}

	writeFiles(files: Iterable<BoxFile>): Promise<void> {
		return writeFiles(this.#control, files);
	}

	list(path: string, options: { recursive?: boolean; maxEntries?: number } = {}): Promise<BoxEntry[]> {
		return list(this.#control, path, options);
	}

	exists(path: string): Promise<boolean> {
		return exists(this.#control, path);
	}

	/** Exit code 1 of tar means that a file changed while it was read, which is no reason to fail. */
	async pack(to: Writable, options: PackOptions = {}): Promise<void> {
		const paths = (options.paths ?? ["."]).map((path) => relativeTo(this.home, path));
		const excludes = (options.exclude ?? []).map((path) => `--exclude=${relativeTo(this.home, path)}`);
		// A box can hold large files that take no room; they must not take any on their way either.
		const tar = [
			"tar",
			"-C",
			this.home,
			...TAR_BLOCKS,
			"--format=gnu",
			"--sparse",
			"--anchored",
			...excludes,
		];
		const argv = options.partly
			? ["bash", "-c", LISTED, this.home, `${paths.length}`, ...paths, ...tar]
			: [...tar, "-cf", "-", "--", ...paths];
		try {
			const { exitCode, stderr } = await this.exec(argv, { cwd: "/", stdoutTo: to });
			const isDone = exitCode === 0 || exitCode === 1 || (options.partly && exitCode === SOME_FAILED);
			if (!isDone && !options.evenBroken) throw new RolloutError("sandbox", "pack_failed", lastLine(stderr));
			to.end();
		} catch (error) {
			// Half an archive must not look like a whole one to whoever reads it.
			to.destroy();
			throw error;
		}
	}

	async unpack(from: Readable, options: { partly?: boolean } = {}): Promise<void> {
		const argv = ["tar", "-C", this.home, "--no-same-owner", "--no-overwrite-dir", "-xpf", "-"];
		const { exitCode, stderr } = await this.exec(argv, { cwd: "/", stdin: from });
		if (exitCode !== 0 && !(options.partly && exitCode === SOME_FAILED))
			throw new RolloutError("sandbox", "unpack_failed", lastLine(stderr));
	}

	/** Nothing is to be spared, so the host helps soon when the box is too full to do it itself. */
	async killAll(): Promise<void> {
		let helped: Promise<void> | undefined;
		const help = async () => await this.#launched.clear?.();
		const timer = setTimeout(() => {
			helped = help().catch(() => {});
		}, HELP_AFTER_MS);
		try {
			await this.#killAll();
		} finally {
			clearTimeout(timer);
			await helped;
		}
	}

	async #killAll(): Promise<void> {
		const { reply } = await request(this.#control, { op: "killAll" }, 0);
		if (reply.killed === true) return;
		const message = "not every process in the box could be ended";
		throw new RolloutError("sandbox", "kill_failed", message, { retryable: true });
	}

	suspect(): void {
		this.#isSuspected = true;
	}

	async #makeRoom(): Promise<boolean> {
		if (await this.#launched.makeRoom?.()) return true;
		if (!this.#isSuspected || this.#launched.clear === undefined) return false;
		await this.#launched.clear();
		return true;
	}

	async hasBrokenItself(): Promise<boolean> {
		const { lost } = this.#control;
		if (lost === null || lost.code === CLOSED) return false;
		// Its connections end a moment before it does.
		await Promise.race([this.closed.catch(() => {}), sleep(ENDING_MS, undefined, { ref: false })]);
		return this.#isBroken;
	}

	async freeze(): Promise<boolean> {
		return (await this.#launched.freeze?.()) ?? false;
	}

	async thaw(): Promise<void> {
		await this.#launched.thaw?.();
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#control.lose(new RolloutError("sandbox", CLOSED, "the box was closed"));
		await this.#launched.kill();
		await this.closed;
	}
}

/** tar's own spelling, so that no path is taken for an option. */
function relativeTo(home: string, path: string): string {
	const below = path === home ? "." : path.startsWith(`${home}/`) ? path.slice(home.length + 1) : path;
	return below === "." || below.startsWith("./") ? below : `./${below}`;
}

function lastLine(text: string): string {
	return text.trimEnd().split("\n").at(-1)?.slice(0, 500) || "tar was killed";
}

function notReady(): RolloutError {
	return new RolloutError("sandbox", "box_not_ready", "the box did not come up in time", { retryable: true });
}

function died(words: string): RolloutError {
	return new RolloutError("sandbox", "box_lost", words, { retryable: true });
}
