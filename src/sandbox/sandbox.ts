import type { Duplex, Readable, Writable } from "node:stream";
import { RolloutError } from "../errors.ts";
import { type BoxSpec, HOME } from "../model/task.ts";

export interface ExecOptions {
	cwd?: string;
	/** The whole environment besides HOME, PATH, LANG, TMPDIR; nothing is inherited from the host. */
	env?: Record<string, string>;
	stdin?: string | Uint8Array | Readable;
	timeoutMs?: number;
	signal?: AbortSignal;
	/** Of each stream, how much is kept (the tail). Default 1 MiB. The rest is counted and dropped. */
	maxOutputBytes?: number;
	/** Where stdout goes instead of into the result; back-pressure is kept. */
	stdoutTo?: Writable;
}

/** How a command ended is data: a non-zero exit never throws. */
export interface ExecResult {
	exitCode: number | null;
	/** e.g. "SIGKILL" when a signal ended it. */
	signal: string | null;
	timedOut: boolean;
	stdout: string;
	stderr: string;
	droppedBytes: number;
	durationMs: number;
}

/** A long-lived process in the box. */
export interface BoxProcess extends AsyncDisposable {
	readonly pid: number;
	readonly stdout: Readable;
	readonly stderr: Readable;
	readonly exited: Promise<{ exitCode: number | null; signal: string | null }>;
	/** A byte stream to a loopback port that this process listens on. Once it has ended, nobody else who listens there is reached. */
	connect(port: number): Promise<Duplex>;
	kill(signal?: NodeJS.Signals): Promise<void>;
}

/** A file to be written; its path is absolute, or relative to home. */
export interface BoxFile {
	path: string;
	data: string | Uint8Array;
	executable?: boolean | undefined;
}

export interface BoxEntry {
	/** Relative to the listed folder. */
	path: string;
	type: "file" | "directory" | "link" | "other";
	sizeBytes: number;
}

export interface PackOptions {
	paths?: readonly string[];
	exclude?: readonly string[];
	/** What cannot be packed is left out; otherwise it is an error. */
	partly?: boolean;
	/** What came before tar itself failed is enough. */
	evenBroken?: boolean;
}

/**
 * A box to run in. Home is /home/user unless `home` says otherwise. Everything is reached through the box itself;
 * the host never opens a path the agent could have prepared.
 */
export interface Sandbox extends AsyncDisposable {
	readonly id: string;
	readonly backend: string;
	readonly home: string;
	/** The agent's binary inside the box. */
	readonly agentBinary: string;
	/** Where the gateway answers inside the box, e.g. http://127.0.0.1:7000 */
	readonly gatewayUrl: string;
	/** Which protections and limits really hold; goes on the trace. */
	readonly facts: Record<string, unknown>;
	/** Resolves when the box is gone, however that came about. */
	readonly closed: Promise<void>;

	/** A string runs under `bash -c`; an array runs as it is. */
	exec(command: string | readonly string[], options?: ExecOptions): Promise<ExecResult>;
	spawn(
		argv: readonly string[],
		options?: { cwd?: string; env?: Record<string, string> },
	): Promise<BoxProcess>;
	/** A byte stream to a loopback port inside the box. */
	connect(port: number): Promise<Duplex>;

	/** Throws RolloutError(sandbox, "file_not_found") when there is none; never follows a link at the last step. */
	readFile(path: string, options?: { maxBytes?: number }): Promise<Buffer>;
	/** Makes parent folders; refuses to write through a link. */
	writeFile(path: string, data: string | Uint8Array, options?: { executable?: boolean }): Promise<void>;
	/** The same for any number of files, in one go. */
	writeFiles(files: Iterable<BoxFile>): Promise<void>;
	list(path: string, options?: { recursive?: boolean; maxEntries?: number }): Promise<BoxEntry[]>;
	exists(path: string): Promise<boolean>;

	/** A tar of `paths` (default: the whole home) streamed into `to`, relative to home. */
	pack(to: Writable, options?: PackOptions): Promise<void>;
	/** The reverse. Unpacking happens inside the box, so a hostile archive hurts only this box. */
	unpack(from: Readable, options?: { partly?: boolean }): Promise<void>;

	/** Ends every process in the box but the box itself. */
	killAll(): Promise<void>;
	/** From now on whoever runs in the box may be what keeps it from answering: they are ended, if need be, and it is asked again. */
	suspect(): void;
	/**
	 * Whether the box is gone by what ran in it: its memory used up to the last, its init made to crash. False while it is there, and
	 * where somebody outside ended it or the backend cannot tell.
	 */
	hasBrokenItself(): Promise<boolean>;
	/** Where frozen boxes cost no CPU; false when this backend cannot. */
	freeze(): Promise<boolean>;
	thaw(): Promise<void>;
}

export interface OpenOptions {
	spec: BoxSpec;
	/** Called for every connection the box makes to its gateway port. */
	onGateway: (connection: Duplex, boxId: string) => void;
	signal?: AbortSignal;
	/** The verifier's box needs no gateway and no agent. */
	role?: "agent" | "verifier";
	/**
	 * A folder of this machine, without links in its path, that lies where the workdir is, to be read and written; the box
	 * then runs under its owner's uid. Backends that cannot refuse with `folder_unsupported`.
	 */
	folder?: string | undefined;
	/** Made ahead of its time: until it is thawed it yields the processors to boxes that are at work. */
	isAhead?: boolean;
}

export interface Availability {
	ok: boolean;
	/** One line each: what was checked, whether it holds, and what to do when it does not. */
	checks: { name: string; ok: boolean; detail: string; fix?: string }[];
}

/** One kind of sandbox. */
export interface Backend extends AsyncDisposable {
	readonly name: string;
	available(): Promise<Availability>;
	open(options: OpenOptions): Promise<Sandbox>;
	/** Destroys what dead owners left behind; says how many boxes that was. */
	reap(): Promise<number>;
}

/** For backends whose boxes share no files with this machine. */
export function refuseFolder(backend: string, { folder }: OpenOptions): void {
	if (folder === undefined) return;
	const message = `the ${backend} sandbox cannot work in a folder of this machine: use local or docker`;
	throw new RolloutError("sandbox", "folder_unsupported", message);
}

/** Where a path of the task's world lies in this box, whose home may be elsewhere. */
export function pathIn(box: Pick<Sandbox, "home">, path: string): string {
	return path.replace(HOME, box.home);
}
