import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { RolloutError } from "../../errors.ts";
import { toTimerMs, untilTimeout } from "../../model/duration.ts";
import type { AgentOptions } from "../../model/request.ts";
import { WARM_UP } from "../../model/warm-up.ts";
import type { BoxProcess, Sandbox } from "../../sandbox/sandbox.ts";
import type { BootedAgent, SavedSession } from "../agent.ts";
import { readLines } from "../lines.ts";
import { LogTail } from "../log-tail.ts";
import { agentEnvironment, agentFiles, type ModelAccess, serverEnvironment } from "../opencode-config.ts";
import { whenAborted } from "../stopped.ts";
import { ADDRESS } from "./address.ts";
import { placeInBox, ServeClient } from "./client.ts";
import { ServeConversation } from "./conversation.ts";

const PORT = 4096;
const BOOT_LIMIT_MS = 120_000;
const EXIT_GRACE_MS = 500;
const DECIDE_GRACE_MS = 5_000;
/** The second turn still meets code that runs for the first time. */
const WARM_UP_TURNS = 2;
/** What shares a box with the agent is hostile: less is believed of it. */
const MAX_FRAME_BYTES = 8 * 1024 * 1024;

/** Starts `opencode serve` in the box and resolves when it answers. */
export async function bootServe(
	box: Sandbox,
	options: AgentOptions,
	access: ModelAccess,
	signal: AbortSignal,
): Promise<BootedAgent> {
	const password = randomBytes(16).toString("hex");
	await box.writeFiles(agentFiles().map(({ path, content }) => ({ path, data: content })));
	const place = { home: box.home, gatewayUrl: box.gatewayUrl, ...access };
	const env = agentEnvironment(options, place, password);
	const argv = [
		box.agentBinary,
		"serve",
		"--hostname",
		"127.0.0.1",
		"--port",
		String(box.backend === "process" ? 0 : PORT),
	];
	const server = await box.spawn(argv, { cwd: "/", env });
	const log = new LogTail();
	log.follow(server.stderr);
	try {
		const port = await listening(server, log, untilTimeout(BOOT_LIMIT_MS, signal));
		return new ServeAgent({ box, server, port, password, log, options });
	} catch (error) {
		await server[Symbol.asyncDispose]();
		throw error;
	}
}

/** A connection made before this line would never be answered, so nothing else may count as "ready". */
async function listening(server: BoxProcess, log: LogTail, signal: AbortSignal): Promise<number> {
	const found = Promise.withResolvers<number>();
	// Its end is a failure only for as long as somebody waits here.
	found.promise.catch(() => {});
	void readLines(server.stdout, (line) => {
		const match = ADDRESS.exec(`${line}\n`);
		if (match) found.resolve(Number(match[1]));
		else log.add(`${line}\n`);
	});
	server.exited.then((exit) => {
		const why = exit.exitCode === null ? `signal ${exit.signal}` : `exit code ${exit.exitCode}`;
		found.reject(
			new RolloutError(
				"agent",
				"agent_boot_failed",
				`opencode serve ended before it listened (${why}): ${log.tail(500)}`,
				{ retryable: true },
			),
		);
	});
	using stop = whenAborted(signal);
	const first = await Promise.race([found.promise, stop.fired]);
	if (first !== "stopped") return first;
	throw new RolloutError("agent", "agent_boot_timeout", "opencode serve did not listen in time", {
		retryable: true,
		cause: signal.reason,
	});
}

interface Parts {
	box: Sandbox;
	server: BoxProcess;
	port: number;
	password: string;
	log: LogTail;
	options: AgentOptions;
}

class ServeAgent implements BootedAgent {
	readonly #parts: Parts;
	#ahead: { directory: string; conversation: ServeConversation } | null = null;

	constructor(parts: Parts) {
		this.#parts = parts;
	}

	async prime(directory: string): Promise<void> {
		const client = this.#client(directory);
		// Nobody is there yet to be asked for a permission.
		const prompt = this.#parts.options.permission === "allow" ? WARM_UP.shell : WARM_UP.word;
		try {
			const session = await client.createSession("warm-up");
			for (let turn = 0; turn < WARM_UP_TURNS; turn += 1) await client.promptAndWait(session.id, prompt);
			await client.deleteSession(session.id);
		} finally {
			client.close();
		}
	}

	async openAhead(directory: string): Promise<void> {
		this.#ahead = { directory, conversation: await this.#open(directory) };
	}

	async ping(): Promise<void> {
		const client = this.#client("/");
		try {
			await client.health();
		} finally {
			client.close();
		}
	}

	async open(directory: string, { sessionId }: { sessionId?: string } = {}): Promise<ServeConversation> {
		const ahead = this.#ahead;
		if (ahead === null || ahead.directory !== directory || sessionId !== undefined)
			return await this.#open(directory, sessionId);
		this.#ahead = null;
		return ahead.conversation;
	}

	async exportSession(directory: string, sessionId: string): Promise<SavedSession> {
		const client = this.#client(directory);
		try {
			return { info: await client.sessionInfo(sessionId), messages: await client.messages(sessionId) };
		} finally {
			client.close();
		}
	}

	/** A second process puts it into the database that the server reads: there is no other way in. */
	async importSession(directory: string, session: SavedSession): Promise<void> {
		const { box } = this.#parts;
		const file = `${box.home}/.cache/opencode/import.json`;
		await box.writeFile(file, JSON.stringify(session));
		const { exitCode, stderr } = await box.exec([box.agentBinary, "import", file], {
			cwd: directory,
			env: serverEnvironment(box.home, ""),
			timeoutMs: BOOT_LIMIT_MS,
		});
		await box.exec(["rm", "-f", file]);
		if (exitCode === 0) return;
		const message = `opencode import ended with ${exitCode}: ${stderr.slice(-500)}`;
		throw new RolloutError("agent", "history_refused", message, { retryable: true });
	}

	async logTail(): Promise<string> {
		return this.#parts.log.tail(64_000);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		const { server } = this.#parts;
		await this.#ahead?.conversation.finish();
		await server.kill("SIGTERM");
		// It ends with its box in any case; this only lets it close its database.
		await Promise.race([server.exited, delay(EXIT_GRACE_MS)]);
	}

	async #open(directory: string, sessionId?: string): Promise<ServeConversation> {
		const { server, options } = this.#parts;
		const conversation = new ServeConversation(this.#client(directory), {
			directory,
			title: options.title ? null : "Paddock rollout",
			sessionId,
			maxFrameBytes: MAX_FRAME_BYTES,
			// Whoever decides has the sharper clock; this one is for asks that nobody takes.
			times: { decideMs: toTimerMs(options.permissionDeadlineS * 1000 + DECIDE_GRACE_MS) },
			serverEnded: server.exited,
		});
		try {
			await conversation.start();
			return conversation;
		} catch (error) {
			await conversation.finish("it did not start");
			throw error;
		}
	}

	#client(directory: string): ServeClient {
		const { server, port, password } = this.#parts;
		// The password is the server's alone: the agent may end it and listen in its place.
		return new ServeClient(
			placeInBox(() => server.connect(port)),
			{ password, directory },
		);
	}
}
