import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { AgentOptions } from "../model/request.ts";
import { HOME, INSTRUCTION_PATH } from "../model/task.ts";
import type { BoxProcess, Sandbox } from "../sandbox/sandbox.ts";
import type { AgentEnd, AgentListener, AgentMessage, AgentRun, BootedAgent } from "./agent.ts";
import { readLines } from "./lines.ts";
import { LogTail } from "./log-tail.ts";
import { agentEnvironment, agentFiles } from "./opencode-config.ts";
import { isSessionId } from "./serve-client.ts";
import { whenAborted } from "./stopped.ts";

/** A killed command is reported at once, unless the box no longer answers. */
const KILL_GRACE_MS = 3_000;
const PING_MS = 2_000;
const TITLE = "Paddock rollout";

/**
 * The second driver: one `opencode run` per prompt. Its exit code proves nothing and it tells less than `serve`; it is here for
 * those who compare with setups that use it.
 */
export async function bootRunDriver(box: Sandbox, options: AgentOptions, key: string): Promise<BootedAgent> {
	await Promise.all(agentFiles().map((file) => box.writeFile(`${box.home}/${file.path}`, file.content)));
	const place = { home: box.home, gatewayUrl: box.gatewayUrl, key };
	const env = agentEnvironment(options, place, randomBytes(16).toString("hex"));
	const log = new LogTail();
	return {
		// Every prompt is a new process: there is nothing to warm up.
		prime: async () => {},
		openAhead: async () => {},
		async ping() {
			const { exitCode } = await box.exec(["true"], { timeoutMs: PING_MS });
			if (exitCode !== 0) throw new Error("the box answers no command");
		},
		begin: async (prompt, listener) => await beginRun(box, options, env, prompt, listener, log),
		logTail: async () => log.tail(64_000),
		[Symbol.asyncDispose]: async () => {},
	};
}

async function beginRun(
	box: Sandbox,
	options: AgentOptions,
	env: Record<string, string>,
	prompt: { directory: string; instruction: string },
	listener: AgentListener,
	log: LogTail,
): Promise<AgentRun> {
	const instructionPath = INSTRUCTION_PATH.replace(HOME, box.home);
	await box.writeFile(instructionPath, prompt.instruction);
	const title = options.title ? "" : ` --title '${TITLE}'`;
	// On stdin the prompt arrives verbatim; as an argument it would be wrapped in quotes.
	const command = `exec "$0" run --format json${title} < "$1"`;
	const process = await box.spawn(["bash", "-c", command, box.agentBinary, instructionPath], {
		cwd: prompt.directory,
		env,
	});
	log.follow(process.stderr);
	return new CommandRun(box, process, env, listener, log);
}

class CommandRun implements AgentRun {
	readonly #box: Sandbox;
	readonly #process: BoxProcess;
	readonly #env: Record<string, string>;
	readonly #listener: AgentListener;
	readonly #drained: Promise<void>;
	#sessionId: string | null = null;
	#error: { code: string; message: string } | null = null;

	constructor(
		box: Sandbox,
		process: BoxProcess,
		env: Record<string, string>,
		listener: AgentListener,
		log: LogTail,
	) {
		this.#box = box;
		this.#process = process;
		this.#env = env;
		this.#listener = listener;
		this.#drained = readLines(process.stdout, (line) => {
			log.add(`${line}\n`);
			this.#onLine(line);
		});
	}

	get sessionId(): string | null {
		return this.#sessionId;
	}

	async wait(signal: AbortSignal): Promise<AgentEnd> {
		using stop = whenAborted(signal);
		const ended = this.#ended();
		let exitCode = await Promise.race([ended, stop.fired]);
		if (exitCode === "stopped") {
			await this.#process.kill("SIGKILL");
			exitCode = await Promise.race([ended, delay(KILL_GRACE_MS, null, { ref: false })]);
		}
		if (signal.aborted) return { outcome: "aborted", exitCode, error: this.#error };
		return { outcome: exitCode === 0 ? "completed" : "failed", exitCode, error: this.#error };
	}

	async #ended(): Promise<number | null> {
		const { exitCode } = await this.#process.exited;
		await this.#drained;
		return exitCode;
	}

	/** There is no server to ask while it runs; afterwards its database is read. */
	async messages(): Promise<AgentMessage[]> {
		if (this.#sessionId === null) return [];
		const result = await this.#box.exec([this.#box.agentBinary, "export", this.#sessionId], {
			env: this.#env,
			timeoutMs: 20_000,
			maxOutputBytes: 64 * 1024 * 1024,
		});
		if (result.exitCode !== 0)
			throw new Error(`opencode export ended with ${result.exitCode}: ${result.stderr.slice(-300)}`);
		const { messages } = JSON.parse(result.stdout) as { messages?: AgentMessage[] };
		return messages ?? [];
	}

	async send(): Promise<void> {
		throw new Error("the run driver takes one prompt only; use the serve driver");
	}

	async answerPermission(): Promise<boolean> {
		return false;
	}

	async answerQuestion(): Promise<boolean> {
		return false;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.#process[Symbol.asyncDispose]();
	}

	#onLine(line: string): void {
		let event: {
			type?: unknown;
			sessionID?: unknown;
			part?: unknown;
			error?: { name?: unknown; data?: { message?: unknown } };
		};
		try {
			event = JSON.parse(line);
		} catch {
			return; // What tools print can end up here; the log has it.
		}
		if (this.#sessionId === null && isSessionId(event.sessionID)) {
			this.#sessionId = event.sessionID;
			this.#listener.onSession(event.sessionID);
		}
		if (event.type === "error") {
			this.#error = {
				code: String(event.error?.name ?? "UnknownError"),
				message: String(event.error?.data?.message ?? ""),
			};
		}
		if (event.type === "text" || event.type === "tool_use" || event.type === "error") {
			this.#listener.onEvent(`run.${event.type}`, { part: event.part ?? null, error: event.error ?? null });
		}
	}
}
