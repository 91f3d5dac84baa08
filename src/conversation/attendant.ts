import type {
	Ask,
	AskEnd,
	Conversation,
	PermissionAsk,
	PermissionDecision,
	QuestionAsk,
	QuestionDecision,
} from "../agent/agent.ts";
import { messageOf } from "../errors.ts";
import type { Command } from "../model/command.ts";
import type { EventBody } from "../model/event.ts";
import type { PermissionRule } from "../model/permission.ts";
import { alwaysPatterns, decideByRules, toRules } from "./permission-policy.ts";

export interface AttendantPolicy {
	/** For what no rule decides. */
	permission: "allow" | "deny" | "ask";
	rules: readonly PermissionRule[];
	/** How long a person may take. */
	deadlineMs: number;
	/** What is done when nobody decided in time. */
	otherwise: "allow" | "deny";
}

type Waiting = (decision: PermissionDecision | QuestionDecision) => void;

const LATE = "Nobody decided in time, so this was not permitted. Go on without it.";
const NOT_ALLOWED = "This is not permitted here. Go on without it.";

export interface AttendantOptions {
	/** What was said already, as its senders call it. */
	heard?: Iterable<string> | undefined;
	/** What people allowed for always, before this. */
	always?: readonly PermissionRule[] | undefined;
	/** Where not the agent but somebody behind it chooses the model. */
	setModel?: ((model: string) => void) | undefined;
	/** Around each message: may have it wait for its turn. */
	sending?: (<T>(send: () => Promise<T>) => Promise<T>) | undefined;
}

/**
 * Stands beside a live agent: answers what it asks (by rule, by policy, or with what a person said), and passes on what people say.
 * Every decision goes on the record with who made it.
 */
export class Attendant {
	readonly #policy: AttendantPolicy;
	readonly #emit: (event: EventBody) => void;
	readonly #rules: PermissionRule[];
	readonly #waiting = new Map<string, { ask: Ask; decide: Waiting }>();
	readonly #heard: Set<string>;
	readonly #setModel: AttendantOptions["setModel"];
	readonly #sending: NonNullable<AttendantOptions["sending"]>;
	readonly #begun = Promise.withResolvers<void>();
	readonly #listeners = new Set<() => void>();
	#conversation: Conversation | null = null;
	/** What people said is obeyed one by one. Never rejects. */
	#obeying: Promise<void> = Promise.resolve();

	constructor(policy: AttendantPolicy, emit: (event: EventBody) => void, options: AttendantOptions = {}) {
		this.#policy = policy;
		this.#emit = emit;
		this.#rules = [...policy.rules, ...(options.always ?? [])];
		this.#heard = new Set(options.heard);
		this.#setModel = options.setModel;
		this.#sending = options.sending ?? ((send) => send());
	}

	/** Before the first prompt, so that no ask has to wait for it. */
	attend(conversation: Conversation): Disposable {
		this.#conversation = conversation;
		const holds = [
			conversation.subscribe((event) => {
				if (event.type === "ask") this.#asked(event.ask);
				if (event.type === "ask-end") this.#ended(event.end);
			}),
			conversation.decideWith((ask, signal) => this.#decide(ask, signal)),
			conversation.answerWith((ask, signal) => this.#answer(ask, signal)),
		];
		return {
			[Symbol.dispose]: () => {
				for (const hold of holds) hold[Symbol.dispose]();
				this.#conversation = null;
			},
		};
	}

	/** The agent has its instruction: from now on it can be told more. */
	begun(): void {
		this.#begun.resolve();
	}

	/** Called after each thing that somebody said was passed on. */
	onHeard(listener: () => void): Disposable {
		this.#listeners.add(listener);
		return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
	}

	obey(command: Command): Promise<void> {
		this.#obeying = this.#obeying
			.then(() => this.#obeyNow(command))
			.then(() => {
				for (const listener of this.#listeners) listener();
			})
			.catch((error) => {
				const text = `${command.type} from ${command.by} did not reach the agent: ${messageOf(error)}`;
				this.#emit({ type: "note", text });
			});
		return this.#obeying;
	}

	/** Does something while nothing that people say reaches the agent. */
	async undisturbed(act: () => Promise<void>): Promise<void> {
		const acting = this.#obeying.then(act);
		this.#obeying = acting.catch(() => {});
		await acting;
	}

	/** Resolves when all that people said so far has been passed on. */
	async quiet(): Promise<void> {
		await this.#obeying;
	}

	async #decide(ask: PermissionAsk, signal: AbortSignal): Promise<PermissionDecision> {
		const { permission } = this.#policy;
		const ruled = decideByRules(this.#rules, ask);
		if (ruled !== null && ruled !== "ask") return ruled;
		if (permission === "allow" && ruled !== "ask") return { behavior: "allow", by: "policy" };
		if (permission === "deny" && ruled !== "ask")
			return { behavior: "deny", by: "policy", message: NOT_ALLOWED };
		const late: PermissionDecision =
			this.#policy.otherwise === "allow"
				? { behavior: "allow", by: "deadline" }
				: { behavior: "deny", by: "deadline", message: LATE };
		return (await this.#person(ask, late, signal)) as PermissionDecision;
	}

	async #answer(ask: QuestionAsk, signal: AbortSignal): Promise<QuestionDecision> {
		if (this.#policy.permission !== "ask") return { answers: null, by: "policy" };
		return (await this.#person(ask, { answers: null, by: "deadline" }, signal)) as QuestionDecision;
	}

	async #person(
		ask: Ask,
		late: PermissionDecision | QuestionDecision,
		signal: AbortSignal,
	): Promise<PermissionDecision | QuestionDecision> {
		const { promise, resolve } = Promise.withResolvers<PermissionDecision | QuestionDecision>();
		this.#waiting.set(ask.id, { ask, decide: resolve });
		const timer = setTimeout(() => resolve(late), this.#policy.deadlineMs);
		const gone = () => resolve(late);
		signal.addEventListener("abort", gone);
		try {
			return await promise;
		} finally {
			clearTimeout(timer);
			signal.removeEventListener("abort", gone);
			this.#waiting.delete(ask.id);
		}
	}

	async #obeyNow(command: Command): Promise<void> {
		const { by } = command;
		if (command.type === "permission" || command.type === "question") return this.#decided(command);
		await this.#begun.promise;
		const conversation = this.#conversation;
		if (conversation === null) throw new Error("there is no agent to hear it");
		if (command.type === "model") {
			if (this.#setModel === undefined) conversation.setModel(command.model);
			else this.#setModel(command.model);
			return this.#emit({ type: "model-set", model: command.model, by });
		}
		if (command.type === "interrupt") {
			await conversation.interrupt();
			this.#emit({ type: "interrupted", by });
		}
		const { text } = command;
		const id = command.type === "send" ? command.id : undefined;
		if (text === undefined || (id !== undefined && this.#heard.has(id))) return;
		const messageId = await this.#sending(() => conversation.send(text));
		if (id !== undefined) this.#heard.add(id);
		this.#emit({ type: "message-sent", text, by, messageId, ...(id === undefined ? {} : { id }) });
	}

	#decided(command: Command & { type: "permission" | "question" }): void {
		const waiting = this.#waiting.get(command.requestId);
		if (waiting === undefined) throw new Error(`nothing waits for an answer to ${command.requestId}`);
		if (command.type === "permission" && command.reply === "always" && waiting.ask.kind === "permission")
			this.#allowAlways(waiting.ask, command.by);
		waiting.decide(toDecision(command));
	}

	/** OpenCode's own "always" would hold for everybody in the directory; ours holds here, and goes on the record each time. */
	#allowAlways(ask: PermissionAsk, by: string): void {
		const patterns = alwaysPatterns(ask);
		this.#rules.push(...toRules(ask.tool, patterns));
		this.#emit({ type: "permission-always", requestId: ask.id, by, permission: ask.tool, patterns });
		for (const [id, waiting] of this.#waiting) {
			if (id === ask.id || waiting.ask.kind !== "permission") continue;
			const ruled = decideByRules(this.#rules, waiting.ask);
			if (ruled !== null && ruled !== "ask") waiting.decide(ruled);
		}
	}

	#asked(ask: Ask): void {
		const { id: requestId, sessionId, isChild } = ask;
		const asker = { requestId, sessionId, isChild };
		if (ask.kind === "question") this.#emit({ type: "question-ask", ...asker, questions: ask.questions });
		else {
			const { tool: permission, patterns, input } = ask;
			this.#emit({ type: "permission-ask", ...asker, permission, patterns, input });
		}
	}

	#ended({ ask, reply, by, message }: AskEnd): void {
		const end = { requestId: ask.id, reply, by, message };
		if (ask.kind === "question") this.#emit({ type: "question-end", ...end });
		else this.#emit({ type: "permission-end", ...end });
	}
}

function toDecision(
	command: Command & { type: "permission" | "question" },
): PermissionDecision | QuestionDecision {
	const { by } = command;
	if (command.type === "question") return { answers: command.answers, by };
	if (command.reply !== "reject") return { behavior: "allow", by };
	return { behavior: "deny", by, ...(command.message ? { message: command.message } : {}) };
}
