import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { type Algorithms, Client, type ClientChannel } from "ssh2";
import { messageOf, RolloutError } from "../../errors.ts";
import { untilTimeout } from "../../model/duration.ts";
import { Tail } from "../tail.ts";
import { describeAddress, type SshAddress } from "./address.ts";
import { hostKeyRefused, readTrust } from "./known-hosts.ts";

const CONNECT_TIMEOUT_MS = 20_000;
const KEEPALIVE_MS = 10_000;
const OUTPUT_BYTES = 64 * 1024;
const LOOPBACK = "127.0.0.1";
const COMMAND_TIMEOUT_MS = 60_000;
/** How long a script that is ended has for it before it is killed. */
const GRACE_MS = 2_000;

/** When a command there has to end. */
export interface CommandLimits {
	timeoutMs?: number | undefined;
	signal?: AbortSignal | undefined;
}

export interface RemoteResult {
	exitCode: number | null;
	stdout: string;
	stderr: string;
}

/** One login on the other machine. */
export class SshConnection implements AsyncDisposable {
	/** Resolves when the connection is over, with why. */
	readonly closed: Promise<string>;
	readonly #client: Client;
	readonly #where: string;

	constructor(client: Client, where: string) {
		this.#client = client;
		this.#where = where;
		this.closed = new Promise((resolve) => {
			client.once("error", (error) => resolve(`the connection to ${where} broke: ${error.message}`));
			client.once("close", () => resolve(`the connection to ${where} was lost`));
		});
	}

	/** Starts a command; what it reads and says is raw bytes. */
	start(command: string): Promise<ClientChannel> {
		return new Promise((resolve, reject) => {
			this.#client.exec(command, (error, channel) => {
				if (error) reject(unreachable(this.#where, error));
				else resolve(channel);
			});
		});
	}

	/** To a port of that machine's loopback. */
	connect(port: number): Promise<ClientChannel> {
		return new Promise((resolve, reject) => {
			this.#client.forwardOut(LOOPBACK, 0, LOOPBACK, port, (error, channel) => {
				if (error) reject(unreachable(this.#where, error));
				else resolve(channel);
			});
		});
	}

	/** A port of that machine's loopback whose connections come to us. */
	listen(accept: (connection: ClientChannel) => void): Promise<number> {
		this.#client.on("tcp connection", (_, acceptChannel) => accept(acceptChannel()));
		return new Promise((resolve, reject) => {
			this.#client.forwardIn(LOOPBACK, 0, (error, port) => {
				if (error) reject(unreachable(this.#where, new Error("its sshd forwards no ports to us")));
				else resolve(port);
			});
		});
	}

	/** Runs a POSIX shell script to its end, whatever the login shell is. */
	async script(text: string, limits: CommandLimits = {}): Promise<RemoteResult> {
		limits.signal?.throwIfAborted();
		const channel = await this.start("/bin/sh -s");
		const stdout = new Tail(OUTPUT_BYTES);
		const stderr = new Tail(OUTPUT_BYTES);
		channel.on("data", (chunk: Buffer) => stdout.push(chunk));
		channel.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
		const exit = new Promise<number | null>((resolve, reject) => {
			let exitCode: number | null | undefined;
			channel.once("exit", (code: number | null) => {
				exitCode = code;
			});
			channel.once("close", () => {
				// A connection that breaks closes its channels first.
				if (exitCode === undefined) reject(unreachable(this.#where, new Error("it broke off in a command")));
				else resolve(exitCode);
			});
			void this.closed.then((words) => reject(unreachable(this.#where, new Error(words))));
		});
		channel.write(withLifeline(text));
		const exitCode = await this.within(limits, channel, exit);
		return { exitCode, stdout: stdout.text(), stderr: stderr.text() };
	}

	/** Waits for a command that was started; one whose time is over, or whose caller gives up, is ended there first. */
	async within<T>(limits: CommandLimits, channel: ClientChannel, work: Promise<T>): Promise<T> {
		const { timeoutMs = COMMAND_TIMEOUT_MS, signal } = limits;
		const limit = untilTimeout(timeoutMs, signal);
		const over = new Promise<never>((_, reject) => {
			if (limit.aborted) reject(limit.reason);
			limit.addEventListener("abort", () => reject(limit.reason), { once: true });
		});
		for (const each of [work, over]) each.catch(() => {});
		try {
			return await Promise.race([work, over]);
		} catch (error) {
			if (!limit.aborted) throw error;
			await endCommand(channel);
			signal?.throwIfAborted();
			throw new RolloutError(
				"sandbox",
				"ssh_timeout",
				`${this.#where}: a command did not end within ${timeoutMs / 1000} s`,
				{ retryable: true },
			);
		}
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#client.end();
		this.#client.destroy();
	}
}

/**
 * The script's input stays open as long as it may run. Its end, whether we say so or the connection breaks, ends the script with all
 * that is of its group there: a channel that is merely closed would leave it running. In one piece, so that nothing of it is left to
 * be read when it starts. `afterwards` are lines for what went off into groups of its own.
 */
export function withLifeline(text: string, afterwards = ""): string {
	return `{
exec 3<&0
(
trap '' TERM; read -r _; kill -TERM 0; sleep ${GRACE_MS / 1000}
${afterwards}
kill -KILL 0
) <&3 >/dev/null 2>&1 &
lifeline=$!
(
${text}
) </dev/null 3<&-
code=$?
kill -KILL $lifeline
exit $code
}
`;
}

/** By the end of its input; what does not heed that is left to itself. */
async function endCommand(channel: ClientChannel): Promise<void> {
	const closed = new Promise<void>((resolve) => channel.once("close", () => resolve()));
	channel.end();
	await Promise.race([closed, sleep(2 * GRACE_MS, undefined, { ref: false })]);
	channel.close();
}

/** Logs in by key, to a host whose own key is known beforehand. */
export async function connectSsh(address: SshAddress): Promise<SshConnection> {
	const where = describeAddress(address);
	const trust = await readTrust(address);
	const privateKey = await readFile(address.keyFile).catch((error) => {
		const message = `cannot read the key ${address.keyFile}: ${messageOf(error)}`;
		throw new RolloutError("sandbox", "ssh_key_unusable", message);
	});
	const client = new Client();
	let shown: Buffer | null = null;
	let refused = false;
	await new Promise<void>((resolve, reject) => {
		client.once("ready", resolve);
		client.once("close", () => reject(unreachable(where, new Error("the connection was closed"))));
		client.once("error", (error) =>
			reject(refused ? hostKeyRefused(address, shown) : toFailure(where, error)),
		);
		const algorithms = trust.algorithms === null ? {} : { serverHostKey: trust.algorithms };
		try {
			client.connect({
				host: address.host,
				port: address.port,
				username: address.user,
				privateKey,
				readyTimeout: CONNECT_TIMEOUT_MS,
				keepaliveInterval: KEEPALIVE_MS,
				keepaliveCountMax: 3,
				algorithms: algorithms as Algorithms,
				hostVerifier: (key: Buffer) => {
					shown = key;
					refused = !trust.accepts(key);
					return !refused;
				},
			});
		} catch (error) {
			reject(new RolloutError("sandbox", "ssh_key_unusable", `${address.keyFile}: ${messageOf(error)}`));
		}
	}).catch((error) => {
		client.destroy();
		throw error;
	});
	// Small frames both ways: waiting to fill a packet would cost every command a tenth of a second.
	client.setNoDelay(true);
	// An error with nobody listening would end the program; the connection's end is told by `closed`.
	client.on("error", () => {});
	return new SshConnection(client, where);
}

function toFailure(where: string, error: Error & { level?: string }): RolloutError {
	if (error.level === "client-authentication") {
		const message = `${where} does not accept the key: add its public half to ~/.ssh/authorized_keys there`;
		return new RolloutError("sandbox", "ssh_login_refused", message);
	}
	return unreachable(where, error);
}

function unreachable(where: string, error: Error): RolloutError {
	return new RolloutError("sandbox", "ssh_unreachable", `${where}: ${error.message}`, {
		retryable: true,
		cause: error,
	});
}
