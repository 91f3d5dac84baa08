import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { RolloutError } from "../errors.ts";
import type { AgentOptions } from "../model/request.ts";
import { INSTRUCTION_PATH } from "../model/task.ts";
import { type BoxProcess, pathIn, type Sandbox } from "../sandbox/sandbox.ts";
import type {
	AgentMessage,
	AgentTrouble,
	Ask,
	BootedAgent,
	CloseReason,
	Conversation,
	ConversationEvent,
	ConversationStatus,
} from "./agent.ts";
import { readLines } from "./lines.ts";
import { LogTail } from "./log-tail.ts";
import { agentEnvironment, agentFiles, type ModelAccess } from "./opencode-config.ts";
import { isAgentId, isRecord } from "./serve/client.ts";
import { mintId } from "./serve/ids.ts";
import { toTrouble } from "./serve/mirror.ts";
import { Subscription } from "./serve/subscription.ts";

/** A killed command is reported at once, unless the box no longer answers. */
const KILL_GRACE_MS = 3_000;
const PING_MS = 2_000;
const TITLE = "Paddock rollout";

/**
 * The second driver: one `opencode run` per prompt. Its exit code proves nothing and it tells less than `serve`; it is here for
 * those who compare with setups that use it.
 */
export async function bootRunDriver(
	box: Sandbox,
	options: AgentOptions,
	access: ModelAccess,
): Promise<BootedAgent> {
	await box.writeFiles(agentFiles().map(({ path, content }) => ({ path, data: content })));
	const place = { home: box.home, gatewayUrl: box.gatewayUrl, ...access };
	const env = agentEnvironment(options, place, randomBytes(16).toString("hex"));
	const log = new LogTail();
	return {
		// Every prompt is a new process: there is nothing to warm up.
		prime: async () => {},
		openAhead: async () => {},
		exportSession: async () => {
			throw noHistory();
		},
		importSession: async () => {
			throw noHistory();
		},
		async ping() {
			const { exitCode } = await box.exec(["true"], { timeoutMs: PING_MS });
			if (exitCode !== 0) throw new Error("the box answers no command");
		},
		open: async (directory) => new RunConversation({ box, options, env, directory, log }),
		logTail: async () => log.tail(64_000),
		[Symbol.asyncDispose]: async () => {},
	};
}

interface Parts {
	box: Sandbox;
	options: AgentOptions;
	env: Record<string, string>;
	directory: string;
	log: LogTail;
}

/** A conversation of one turn, and nobody can be asked anything. */
class RunConversation implements Conversation {
	readonly #parts: Parts;
	readonly #subscriptions = new Set<Subscription>();
	readonly #closed = Promise.withResolvers<CloseReason>();
	readonly #settled = Promise.withResolvers<void>();
	#process: BoxProcess | null = null;
	#sessionId: string | null = null;
	#trouble: AgentTrouble | null = null;
	#isInterrupted = false;
	#pending = false;

	constructor(parts: Parts) {
		this.#parts = parts;
	}

	get sessionId(): string | null {
		return this.#sessionId;
	}

	get pending(): boolean {
		return this.#pending;
	}

	get status(): ConversationStatus {
		return { type: this.#pending ? "busy" : "idle" };
	}

	get closed(): Promise<CloseReason> {
		return this.#closed.promise;
	}

	subscribe(handler: (event: ConversationEvent) => unknown): Disposable {
		const subscription = new Subscription(handler, (error) =>
			this.#parts.log.add(`a listener failed: ${String(error)}\n`),
		);
		this.#subscriptions.add(subscription);
		return subscription;
	}

	decideWith(): Disposable {
		return NOTHING;
	}

	answerWith(): Disposable {
		return NOTHING;
	}

	async send(text: string): Promise<string> {
		if (this.#process !== null) throw new Error("the run driver takes one prompt only; use the serve driver");
		const { box, options, env, directory, log } = this.#parts;
		const messageId = mintId("msg");
		this.#pending = true;
		const instructionPath = pathIn(box, INSTRUCTION_PATH);
		await box.writeFile(instructionPath, text);
		const title = options.title ? "" : ` --title '${TITLE}'`;
		// On stdin the prompt arrives verbatim; as an argument it would be wrapped in quotes.
		const command = `exec "$0" run --format json${title} < "$1"`;
		const process = await box.spawn(["bash", "-c", command, box.agentBinary, instructionPath], {
			cwd: directory,
			env,
		});
		this.#process = process;
		log.follow(process.stderr);
		const drained = readLines(process.stdout, (line) => {
			log.add(`${line}\n`);
			this.#onLine(line);
		});
		void Promise.all([process.exited, drained]).then(([{ exitCode }]) => this.#ended(messageId, exitCode));
		return messageId;
	}

	async interrupt(): Promise<void> {
		if (this.#process === null || !this.#pending) return;
		this.#isInterrupted = true;
		await this.#process.kill("SIGKILL");
		await Promise.race([this.#settled.promise, delay(KILL_GRACE_MS, null, { ref: false })]);
	}

	setModel(): void {
		throw new Error("the run driver has one model; use the serve driver");
	}

	settled(): Promise<void> {
		return this.#settled.promise;
	}

	asks(): Ask[] {
		return [];
	}

	/** There is no server to ask while it runs; afterwards its database is read. */
	async messages(): Promise<AgentMessage[]> {
		const { box, env } = this.#parts;
		if (this.#sessionId === null) return [];
		const result = await box.exec([box.agentBinary, "export", this.#sessionId], {
			env,
			timeoutMs: 20_000,
			maxOutputBytes: 64 * 1024 * 1024,
		});
		if (result.exitCode !== 0)
			throw new Error(`opencode export ended with ${result.exitCode}: ${result.stderr.slice(-300)}`);
		const { messages } = JSON.parse(result.stdout) as { messages?: AgentMessage[] };
		return messages ?? [];
	}

	async finish(message = "it was closed"): Promise<void> {
		await this.#process?.[Symbol.asyncDispose]();
		const reason: CloseReason = { code: "asked", message, exitCode: null };
		this.#emit({ type: "closed", reason });
		this.#subscriptions.clear();
		this.#settled.resolve();
		this.#closed.resolve(reason);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.finish();
	}

	#ended(messageId: string, exitCode: number | null): void {
		this.#pending = false;
		const error = exitCode === 0 ? null : (this.#trouble ?? unexplained(exitCode));
		const ended = this.#isInterrupted ? "interrupted" : error === null ? "answered" : "failed";
		this.#emit({ type: "turn-end", turn: { messageId, ended, text: "", error, tokens: null } });
		this.#settled.resolve();
	}

	#emit(event: ConversationEvent): void {
		for (const subscription of this.#subscriptions) subscription.push(event, 1_000);
	}

	#onLine(line: string): void {
		let event: unknown;
		try {
			event = JSON.parse(line);
		} catch {
			return; // What tools print can end up here; the log has it.
		}
		if (!isRecord(event)) return;
		const { type, sessionID, part = null, error = null } = event;
		if (this.#sessionId === null && isAgentId(sessionID)) {
			this.#sessionId = sessionID;
			this.#emit({ type: "session-start", sessionId: sessionID });
		}
		if (type === "error") this.#trouble = toTrouble(error);
		if (type === "text" || type === "tool_use" || type === "error")
			this.#emit({ type: "agent-event", name: `run.${type}`, properties: { part, error } });
	}
}

const NOTHING: Disposable = { [Symbol.dispose]: () => {} };

function unexplained(exitCode: number | null): AgentTrouble {
	return { code: "UnknownError", message: `opencode run ended with ${exitCode}`, statusCode: null };
}

function noHistory(): RolloutError {
	return new RolloutError("agent", "agent_api_error", "the driver run has no history to hand over");
}
