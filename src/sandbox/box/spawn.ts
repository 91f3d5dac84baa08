import { type Duplex, PassThrough, type Readable } from "node:stream";
import { RolloutError } from "../../errors.ts";
import type { BoxProcess } from "../sandbox.ts";
import { connect } from "./connect.ts";
import type { Control, Operation } from "./control.ts";
import { type Ending, lostMidway, parseEnding, parseReply, toBoxError } from "./exec.ts";
import { type Frame, readFrame } from "./frames.ts";
import { FROM_BOX } from "./wire.ts";

/** What an output nobody reads may hold; beyond it the process goes on and the output is dropped. */
const UNREAD_BYTES = 1024 * 1024;

type Exit = { exitCode: number | null; signal: string | null };

/** Starts a process that lives as long as the box, or until it is disposed of. */
export async function spawn(
	control: Control,
	argv: readonly string[],
	options: { cwd?: string; env?: Record<string, string> },
): Promise<BoxProcess> {
	const operation = await control.open({ op: "exec", argv, cwd: options.cwd, env: options.env ?? {} });
	const first = await readFrame(operation.connection);
	if (first?.type !== FROM_BOX.started) throw couldNotStart(control, argv[0] ?? "", first);
	return new Spawned(control, operation, Number(parseReply(first.payload).pid));
}

class Spawned implements BoxProcess {
	readonly pid: number;
	readonly stdout: Readable;
	readonly stderr: Readable;
	readonly exited: Promise<Exit>;
	readonly #control: Control;
	readonly #operation: Operation;

	constructor(control: Control, operation: Operation, pid: number) {
		const stdout = new PassThrough();
		const stderr = new PassThrough();
		this.#control = control;
		this.#operation = operation;
		this.pid = pid;
		this.stdout = stdout;
		this.stderr = stderr;
		this.exited = this.#relay(stdout, stderr);
	}

	connect(port: number): Promise<Duplex> {
		return connect(this.#control, port, this.#operation.nonce);
	}

	async kill(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
		this.#operation.signal(signal);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.kill("SIGKILL");
		await this.exited;
	}

	/** Never fails: a process that went down with its box ended by SIGKILL. */
	async #relay(stdout: PassThrough, stderr: PassThrough): Promise<Exit> {
		const { connection } = this.#operation;
		let ending: Ending | null = null;
		for (;;) {
			const frame = await readFrame(connection).catch(() => null);
			if (frame === null || frame.type === FROM_BOX.failed) break;
			if (frame.type === FROM_BOX.result) {
				ending = parseEnding(frame.payload);
				break;
			}
			if (frame.type === FROM_BOX.stdout) await push(stdout, frame.payload);
			if (frame.type === FROM_BOX.stderr) await push(stderr, frame.payload);
		}
		stdout.end();
		stderr.end();
		connection.destroy();
		return { exitCode: ending?.code ?? null, signal: ending === null ? "SIGKILL" : ending.signal };
	}
}

async function push(to: PassThrough, chunk: Buffer): Promise<void> {
	const unattended = to.readableFlowing === null && to.listenerCount("readable") === 0;
	if (to.destroyed || (unattended && to.readableLength + to.writableLength > UNREAD_BYTES)) return;
	if (to.write(chunk) || unattended) return;
	await new Promise<void>((resolve) => {
		const done = () => {
			to.removeListener("drain", done);
			to.removeListener("close", done);
			resolve();
		};
		to.on("drain", done);
		to.on("close", done);
	});
}

function couldNotStart(control: Control, program: string, frame: Frame | null): RolloutError {
	if (frame === null) return lostMidway(control);
	if (frame.type === FROM_BOX.failed) return toBoxError(frame.payload);
	const { spawnError, message } = parseEnding(frame.payload);
	return new RolloutError("sandbox", "spawn_failed", `cannot start ${program}: ${message || spawnError}`);
}
