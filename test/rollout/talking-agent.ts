import type {
	Agent,
	AgentMessage,
	CloseReason,
	Conversation,
	ConversationEvent,
	SavedSession,
	Turn,
} from "../../src/agent/agent.ts";
import type { Sandbox } from "../../src/sandbox/sandbox.ts";

export interface TalkingAgent extends Agent {
	/** How often a session was made, not taken over. */
	made: number;
	/** Ends the program of whoever talks now, as `kill -9` would. */
	crash(): void;
}

/** An agent that runs what it is told in the workdir and says what came out. It remembers what was said, and hands that over. */
export function talkingAgent(): TalkingAgent {
	const agent: TalkingAgent = {
		name: "talking",
		version: "1",
		made: 0,
		crash: () => {},
		boot: async (box) => {
			const sessions = new Map<string, AgentMessage[]>();
			return {
				prime: async () => {},
				openAhead: async () => {},
				ping: async () => {},
				async open(directory, { sessionId = `ses_${++agent.made}` } = {}) {
					const said = sessions.get(sessionId) ?? [];
					sessions.set(sessionId, said);
					const talk = new Talk(box, directory, sessionId, said);
					agent.crash = () => talk.crash();
					return talk;
				},
				exportSession: async (_directory, id): Promise<SavedSession> => ({
					info: { id },
					messages: [...(sessions.get(id) ?? [])],
				}),
				importSession: async (_directory, { info, messages }) => {
					sessions.set(String(info.id), [...messages]);
				},
				logTail: async () => "",
				[Symbol.asyncDispose]: async () => {},
			};
		},
	};
	return agent;
}

class Talk implements Conversation {
	readonly sessionId: string;
	readonly status = { type: "idle" } as const;
	readonly #box: Sandbox;
	readonly #directory: string;
	readonly #said: AgentMessage[];
	readonly #handlers = new Set<(event: ConversationEvent) => unknown>();
	readonly #closed = Promise.withResolvers<CloseReason>();
	#working = new Map<string, { stop: AbortController; ended: Promise<void> }>();
	#last: Promise<void> = Promise.resolve();
	#count: number;

	constructor(box: Sandbox, directory: string, sessionId: string, said: AgentMessage[]) {
		this.#box = box;
		this.#directory = directory;
		this.sessionId = sessionId;
		this.#said = said;
		this.#count = said.length;
	}

	get pending(): boolean {
		return this.#working.size > 0;
	}

	get closed(): Promise<CloseReason> {
		return this.#closed.promise;
	}

	subscribe(handler: (event: ConversationEvent) => unknown): Disposable {
		this.#handlers.add(handler);
		handler({ type: "session-start", sessionId: this.sessionId });
		return { [Symbol.dispose]: () => void this.#handlers.delete(handler) };
	}

	decideWith(): Disposable {
		return { [Symbol.dispose]: () => {} };
	}

	answerWith(): Disposable {
		return { [Symbol.dispose]: () => {} };
	}

	async send(text: string, options: { ids?: { messageId: string } } = {}): Promise<string> {
		const messageId = options.ids?.messageId ?? `msg_${Date.now().toString(36)}${this.#count++}`;
		const stop = new AbortController();
		this.#last = this.#last.then(() => this.#work(messageId, text, stop.signal));
		this.#working.set(messageId, { stop, ended: this.#last });
		return messageId;
	}

	async interrupt(): Promise<void> {
		for (const { stop, ended } of [...this.#working.values()]) {
			stop.abort();
			await ended;
		}
	}

	setModel(): void {}

	async settled(): Promise<void> {
		while (this.pending)
			await Promise.race([this.closed, Promise.all([...this.#working.values()].map(({ ended }) => ended))]);
	}

	asks(): [] {
		return [];
	}

	async messages(): Promise<AgentMessage[]> {
		return this.#said;
	}

	crash(): void {
		const reason = { code: "agent_crashed", message: "it was killed", exitCode: null } as const;
		for (const { stop } of this.#working.values()) stop.abort();
		this.#working.clear();
		this.#emit({ type: "closed", reason });
		this.#closed.resolve(reason);
	}

	async finish(): Promise<void> {}

	async [Symbol.asyncDispose](): Promise<void> {}

	async #work(messageId: string, text: string, signal: AbortSignal): Promise<void> {
		const ended = await this.#box.exec(text, { cwd: this.#directory, signal }).catch(() => null);
		if (!this.#working.delete(messageId)) return;
		const said = ended?.stdout.trim() ?? "";
		this.#said.push({ info: { id: messageId, role: "user" }, parts: [{ type: "text", text }] });
		this.#said.push({
			info: { id: `${messageId}a`, role: "assistant" },
			parts: [{ type: "text", text: said }],
		});
		const turn: Turn = {
			...{ messageId, text: said, error: null, tokens: null },
			ended: signal.aborted ? "interrupted" : "answered",
		};
		this.#emit({ type: "turn-end", turn });
	}

	#emit(event: ConversationEvent): void {
		for (const handler of [...this.#handlers]) handler(event);
	}
}
