import { spawn } from "node:child_process";
import { once } from "node:events";
import { isAbsolute } from "node:path";
import { RolloutError } from "../../errors.ts";
import type { LogFile } from "./log-file.ts";
import { identify, type ProcessIdentity } from "./processes.ts";
import type { ServerRecord } from "./server-record.ts";

/** A server's process; its address is known once it listens. */
export interface Launched extends ServerRecord {
	log: LogFile;
	isAlive(): Promise<boolean>;
	whyEnded(): string;
	/** Resolves when it has ended, for whatever reason. */
	ended: Promise<ServerEnd>;
}

export interface ServerEnd {
	exitCode: number | null;
	signal: string | null;
}

export interface LaunchOptions {
	binary: string;
	/** Words between the program and its `serve`. */
	before: readonly string[];
	home: string;
	port: number;
	env: Record<string, string>;
	log: LogFile;
	mark: string;
}

/** In a group of its own, with its log for output: a pipe that nobody reads would block it. */
export async function launch(options: LaunchOptions): Promise<Launched> {
	const { binary, before, home, port, env, log, mark } = options;
	if (!isAbsolute(binary))
		throw new RolloutError("sandbox", "agent_binary_missing", `${binary} is no absolute path`);
	const child = spawn(binary, [...before, "serve", "--hostname", "127.0.0.1", "--port", String(port)], {
		cwd: home,
		env,
		detached: true,
		stdio: ["ignore", log.fd, log.fd],
	});
	let why: string | null = null;
	const ended = Promise.withResolvers<ServerEnd>();
	child.on("exit", (exitCode, signal) => {
		why = signal ?? `exit code ${exitCode}`;
		ended.resolve({ exitCode, signal });
	});
	try {
		await once(child, "spawn");
	} catch (error) {
		const message = `${binary} cannot be run: install OpenCode, or name its binary`;
		throw new RolloutError("sandbox", "agent_binary_missing", message, { cause: error });
	}
	child.unref();
	// One that has ended already is noticed by whoever asks whether it lives.
	const { startTime }: ProcessIdentity = identify(child.pid!) ?? { pid: child.pid!, startTime: "" };
	return {
		pid: child.pid!,
		startTime,
		baseUrl: "",
		mark,
		log,
		isAlive: async () => why === null,
		whyEnded: () => why ?? "it lives",
		ended: ended.promise,
	};
}
