import { setTimeout as delay } from "node:timers/promises";
import type { AgentOptions } from "../model/request.ts";
import type { BoxProcess } from "../sandbox/sandbox.ts";
import type { AgentEnd, AgentListener, AgentMessage, AgentRun } from "./agent.ts";
import type { ServeClient, ServeEvent } from "./serve-client.ts";
import { whenAborted } from "./stopped.ts";

/** After an abort OpenCode kills its tools and reports idle; this long it may take. */
const ABORT_GRACE_MS = 3_000;
const RECONNECTS = 5;
/** A single tool output may be large; the event log keeps a head of it, the transcript all. */
const EVENT_TEXT_LIMIT = 4_000;
const EVENT_ENTRIES_LIMIT = 100;

/** A session that somebody listens to and that has been asked nothing yet. */
export interface WaitingSession extends AsyncDisposable {
	begin(instruction: string, listener: AgentListener): Promise<AgentRun>;
}

export async function openSession(
	client: ServeClient,
	server: BoxProcess,
	options: AgentOptions,
): Promise<WaitingSession> {
	const run = new ServeRun(client, server);
	try {
		await run.open(options.title ? null : "Paddock rollout");
		return run;
	} catch (error) {
		await run[Symbol.asyncDispose]();
		throw error;
	}
}

class ServeRun implements AgentRun, WaitingSession {
	readonly #client: ServeClient;
	readonly #stop = new AbortController();
	readonly #end = Promise.withResolvers<AgentEnd>();
	#listener: AgentListener | null = null;
	#sessionId: string | null = null;
	#error: { code: string; message: string } | null = null;
	#prompted = false;

	constructor(client: ServeClient, server: BoxProcess) {
		this.#client = client;
		server.exited.then(({ exitCode, signal }) => {
			const message = `opencode serve ended while it worked (${signal ?? `exit code ${exitCode}`})`;
			this.#end.resolve({ outcome: "failed", exitCode, error: { code: "agent_crashed", message } });
		});
	}

	get sessionId(): string | null {
		return this.#sessionId;
	}

	async open(title: string | null): Promise<void> {
		const [sessionId] = await Promise.all([this.#client.createSession(title), this.#listen()]);
		this.#sessionId = sessionId;
	}

	async begin(instruction: string, listener: AgentListener): Promise<AgentRun> {
		const sessionId = this.#sessionId!;
		this.#listener = listener;
		listener.onSession(sessionId);
		// The idle event travels on another connection and may overtake the answer to the prompt.
		this.#prompted = true;
		try {
			await this.#client.prompt(sessionId, instruction);
			return this;
		} catch (error) {
			await this[Symbol.asyncDispose]();
			throw error;
		}
	}

	async wait(signal: AbortSignal): Promise<AgentEnd> {
		using stop = whenAborted(signal);
		const end = await Promise.race([this.#end.promise, stop.fired]);
		if (end !== "stopped") return end;
		await this.#abort();
		return { outcome: "aborted", exitCode: null, error: this.#error };
	}

	async messages(): Promise<AgentMessage[]> {
		return this.#sessionId === null ? [] : await this.#client.messages(this.#sessionId);
	}

	async send(text: string): Promise<void> {
		if (this.#sessionId !== null) await this.#client.prompt(this.#sessionId, text);
	}

	async answerPermission(
		requestId: string,
		reply: "once" | "always" | "reject",
		message?: string,
	): Promise<boolean> {
		await this.#client.replyPermission(requestId, reply, message);
		return true;
	}

	async answerQuestion(requestId: string, answers: string[][] | null): Promise<boolean> {
		await this.#client.replyQuestion(requestId, answers);
		return true;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#stop.abort();
		this.#client.close();
	}

	/** Stops token generation at once and gives the tools a moment to die; the box's end is the backstop. */
	async #abort(): Promise<void> {
		if (this.#sessionId === null) return;
		try {
			await this.#client.abort(this.#sessionId);
			await Promise.race([this.#end.promise, delay(ABORT_GRACE_MS, null, { ref: false })]);
		} catch (error) {
			this.#error ??= { code: "agent_abort_failed", message: String(error) };
		}
	}

	/** Keeps listening, over reconnects, until the run is disposed of; a lost stream is made up for by asking. */
	async #listen(): Promise<void> {
		const first = this.#client.events((event) => this.#on(event), this.#stop.signal);
		void this.#keepListening(first.ended);
		await first.ready;
	}

	async #keepListening(ended: Promise<void>): Promise<void> {
		let current = ended;
		for (let attempt = 1; ; attempt++) {
			const error = await current.then(() => null).catch((reason: unknown) => reason);
			if (this.#stop.signal.aborted) return;
			if (attempt > RECONNECTS) {
				const message = `the event stream of opencode serve broke ${attempt} times (${String(error)})`;
				this.#end.resolve({ outcome: "failed", exitCode: null, error: { code: "agent_lost", message } });
				return;
			}
			await delay(100 * attempt, null, { ref: false });
			const next = this.#client.events((event) => this.#on(event), this.#stop.signal);
			current = next.ended;
			await next.ready
				.then(() => this.#catchUp())
				.catch(() => {
					// The loop's next turn sees the same failure through `ended` and counts it.
				});
		}
	}

	async #catchUp(): Promise<void> {
		if (!this.#prompted || this.#sessionId === null) return;
		const busy = await this.#client.busySessions();
		if (!busy.has(this.#sessionId)) this.#idle();
	}

	#on(event: ServeEvent): void {
		const { type, properties } = event;
		const listener = this.#listener;
		if (listener === null) return;
		if (type === "permission.asked") listener.onPermission(toPermission(properties));
		if (type === "question.asked") listener.onQuestion(toQuestion(properties));
		if (type === "session.error" && this.#isRoot(properties)) this.#error = toError(properties.error);
		if (isTelling(event)) listener.onEvent(type, shorten(properties) as Record<string, unknown>);
		if (type === "session.idle" && this.#isRoot(properties) && this.#prompted) this.#idle();
	}

	#idle(): void {
		const error = this.#error;
		if (error === null) this.#end.resolve({ outcome: "completed", exitCode: 0, error });
		else
			this.#end.resolve({
				outcome: error.code === "MessageAbortedError" ? "aborted" : "failed",
				exitCode: 1,
				error,
			});
	}

	#isRoot(properties: Record<string, unknown>): boolean {
		return properties.sessionID === this.#sessionId;
	}
}

/** Deltas and bookkeeping would drown what happened. */
function isTelling({ type, properties }: ServeEvent): boolean {
	if (type === "session.error" || type === "todo.updated" || type === "file.edited") return true;
	if (type === "session.status")
		return (properties.status as { type?: string } | undefined)?.type === "retry";
	if (type !== "message.part.updated") return false;
	const part = properties.part as
		| { type?: string; time?: { end?: number }; state?: { status?: string } }
		| undefined;
	if (part?.type === "tool") return part.state?.status !== "pending";
	return (part?.type === "text" || part?.type === "reasoning") && part.time?.end !== undefined;
}

function shorten(value: unknown): unknown {
	if (typeof value === "string") {
		return value.length > EVENT_TEXT_LIMIT
			? `${value.slice(0, EVENT_TEXT_LIMIT)}… (${value.length} characters)`
			: value;
	}
	if (Array.isArray(value)) return shortenList(value);
	if (value === null || typeof value !== "object") return value;
	const entries = Object.entries(value).slice(0, EVENT_ENTRIES_LIMIT);
	return Object.fromEntries(entries.map(([key, entry]) => [key, shorten(entry)]));
}

function shortenList(values: unknown[]): unknown[] {
	return values.slice(0, EVENT_ENTRIES_LIMIT).map(shorten);
}

function toPermission(ask: Record<string, unknown>) {
	const patterns = Array.isArray(ask.patterns) ? shortenList(ask.patterns).map(text) : [];
	return { requestId: text(ask.id), permission: text(ask.permission), patterns };
}

function toQuestion(ask: Record<string, unknown>) {
	const questions = Array.isArray(ask.questions) ? shortenList(ask.questions) : [];
	return { requestId: text(ask.id), questions };
}

function toError(error: unknown): { code: string; message: string } {
	const { name, data } = (error ?? {}) as { name?: unknown; data?: { message?: unknown } };
	return { code: text(name) || "UnknownError", message: text(data?.message).slice(0, 2_000) };
}

function text(value: unknown): string {
	return typeof value === "string" ? value : "";
}
