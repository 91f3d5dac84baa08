import type { Duplex, Writable } from "node:stream";
import { RolloutError } from "../../errors.ts";
import { Tail } from "../../host/tail.ts";
import { toTimerMs } from "../../model/duration.ts";
import type { ExecOptions, ExecResult } from "../sandbox.ts";
import type { Control, Operation } from "./control.ts";
import { readFrames } from "./frames.ts";
import { drainOrClose, sendFrames, stdinFrames } from "./input.ts";
import { FROM_BOX } from "./wire.ts";

const DEFAULT_OUTPUT_BYTES = 1024 * 1024;
/** How long a killed command may take to be reported as ended. */
const KILL_GRACE_MS = 2_000;

export interface Ending {
	code: number | null;
	signal: string | null;
	spawnError: string | null;
	message: string;
}

/** Runs one command to its end; stops it when its time is up or the caller no longer wants it. */
export async function exec(
	control: Control,
	command: string | readonly string[],
	options: ExecOptions,
): Promise<ExecResult> {
	options.signal?.throwIfAborted();
	const startedAt = performance.now();
	// No startup file of the agent's making may run before the command.
	const argv = typeof command === "string" ? ["/bin/bash", "--norc", "-c", command] : command;
	const stdin = options.stdin !== undefined;
	const operation = await control.open({ op: "exec", argv, cwd: options.cwd, env: options.env ?? {}, stdin });
	const watch = new Watch(operation, options);
	try {
		const output = { stdout: tailOf(options), stderr: tailOf(options) };
		const input = sendFrames(operation.connection, stdinFrames(options.stdin));
		const ending = await collect(operation.connection, options, output);
		input.cancel();
		options.signal?.throwIfAborted();
		if (input.failed !== null) throw input.failed;
		if (ending === null && !watch.timedOut) throw lostMidway(control);
		return toResult(ending, output, watch.timedOut, performance.now() - startedAt);
	} finally {
		watch.stop();
		operation.connection.destroy();
	}
}

/** Kills the command on timeout and on abort, and hangs up when even that is not answered. */
class Watch {
	timedOut = false;
	readonly #operation: Operation;
	readonly #signal: AbortSignal | undefined;
	readonly #timers: NodeJS.Timeout[] = [];

	constructor(operation: Operation, options: ExecOptions) {
		this.#operation = operation;
		this.#signal = options.signal;
		this.#signal?.addEventListener("abort", this.#abort);
		if (this.#signal?.aborted) this.#abort();
		if (options.timeoutMs !== undefined)
			this.#timers.push(setTimeout(this.#expire, toTimerMs(options.timeoutMs)));
	}

	stop(): void {
		for (const timer of this.#timers) clearTimeout(timer);
		this.#signal?.removeEventListener("abort", this.#abort);
	}

	#expire = () => {
		this.timedOut = true;
		this.#operation.signal("SIGKILL");
		this.#timers.push(setTimeout(() => this.#operation.connection.destroy(), KILL_GRACE_MS));
	};

	#abort = () => {
		this.#operation.signal("SIGKILL");
		this.#operation.connection.destroy();
	};
}

/** Reads until the command's end; null when the connection broke first. */
async function collect(
	connection: Duplex,
	options: ExecOptions,
	output: { stdout: Tail; stderr: Tail },
): Promise<Ending | null> {
	for await (const { type, payload } of readFrames(connection)) {
		if (type === FROM_BOX.result) return parseEnding(payload);
		if (type === FROM_BOX.failed) throw toBoxError(payload);
		if (type === FROM_BOX.stdout && options.stdoutTo !== undefined) {
			await passOn(connection, options.stdoutTo, payload);
		} else if (type === FROM_BOX.stdout) {
			output.stdout.push(payload);
		} else if (type === FROM_BOX.stderr) {
			output.stderr.push(payload);
		}
	}
	return null;
}

/** A command that was given up does not wait for whoever reads its output. */
async function passOn(connection: Duplex, to: Writable, chunk: Buffer): Promise<void> {
	if (!to.destroyed && !to.write(chunk) && !connection.destroyed) await drainOrClose(to, connection);
	if (to.destroyed)
		throw new RolloutError("sandbox", "output_closed", "nobody takes the command's output any more");
}

/** Not being able to start is an exit code too, the one a shell would give. */
function toResult(
	ending: Ending | null,
	output: { stdout: Tail; stderr: Tail },
	timedOut: boolean,
	durationMs: number,
): ExecResult {
	const failed = ending?.spawnError ?? null;
	const exitCode = failed === null ? (ending?.code ?? null) : failed === "ENOENT" ? 127 : 126;
	return {
		exitCode,
		signal: failed === null ? (ending === null ? "SIGKILL" : ending.signal) : null,
		timedOut,
		stdout: output.stdout.text(),
		stderr: failed === null ? output.stderr.text() : `cannot start: ${ending?.message ?? failed}\n`,
		droppedBytes: output.stdout.droppedBytes + output.stderr.droppedBytes,
		durationMs,
	};
}

export function parseEnding(payload: Buffer): Ending {
	const value = parseReply(payload);
	return {
		code: typeof value.code === "number" ? value.code : null,
		signal: typeof value.signal === "string" ? value.signal.slice(0, 20) : null,
		spawnError: typeof value.spawnError === "string" ? value.spawnError.slice(0, 20) : null,
		message: typeof value.message === "string" ? value.message.slice(0, 500) : "",
	};
}

export function parseReply(payload: Buffer): Record<string, unknown> {
	try {
		const value: unknown = JSON.parse(payload.toString("utf8"));
		if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
	} catch {
		// Falls through to the one error for nonsense.
	}
	throw new RolloutError("sandbox", "bad_frame", "the box sent an answer that is not an object");
}

const CODES: Record<string, string> = {
	ENOENT: "file_not_found",
	ENOTDIR: "file_not_found",
	ELOOP: "link_refused",
	EFBIG: "file_too_large",
	ENOTFILE: "not_a_file",
	EISDIR: "not_a_file",
	ENXIO: "not_a_file",
	EACCES: "file_denied",
	EPERM: "file_denied",
	EROFS: "file_denied",
	ENOSPC: "disk_full",
	EDQUOT: "disk_full",
	ECONNREFUSED: "port_closed",
};

export function toBoxError(payload: Buffer): RolloutError {
	const { code, message } = parseReply(payload);
	const known = CODES[String(code)] ?? "box_operation_failed";
	return new RolloutError("sandbox", known, String(message).slice(0, 500));
}

export function lostMidway(control: Control): RolloutError {
	return control.lost ?? new RolloutError("sandbox", "box_lost", "the box hung up", { retryable: true });
}

function tailOf(options: ExecOptions): Tail {
	return new Tail(options.maxOutputBytes ?? DEFAULT_OUTPUT_BYTES);
}
