import type { AgentTrouble, AssistantMessage, ConversationStatus, Turn } from "../agent.ts";

export interface TurnTimes {
	/** How long idle may last without an answer until the turn counts as unanswered. */
	unansweredMs: number;
	/** The same for a prompt of which nothing at all was heard: the first use of a directory takes its time. */
	unheardMs: number;
}

export interface TurnListener {
	onTurn(turn: Turn): void;
	/** Ask the server, then call `status` and `confirmed`. In silence an answer may have been missed, too. */
	onDoubt(about: "idle" | "silence"): void;
}

interface Open {
	messageId: string;
	/** The server took it; before that its silence means nothing. */
	accepted: boolean;
	answer: AssistantMessage | null;
	trouble: AgentTrouble | null;
	interrupted: boolean;
	/** Whether the root was seen working since it was sent. */
	seenBusy: boolean;
}

/** Reasons of a model to stop that let its agent go on. */
const GOING_ON = new Set<string | null>(["tool-calls", "unknown", null]);

/**
 * When a prompt is settled. Idle alone proves nothing: the prompt is taken before the session is busy, and an interrupted turn says
 * idle twice. So idle counts together with an answer to our own message, an error since, or an interrupt; or when it lasts.
 */
export class Turns {
	readonly #listener: TurnListener;
	readonly #times: TurnTimes;
	readonly #open = new Map<string, Open>();
	#idle = true;
	#timer: NodeJS.Timeout | undefined;
	#settled = Promise.withResolvers<void>();

	constructor(listener: TurnListener, times: TurnTimes) {
		this.#listener = listener;
		this.#times = times;
		this.#settled.resolve();
	}

	get pending(): boolean {
		return this.#open.size > 0;
	}

	/** Resolves when nothing is being worked on. */
	get settled(): Promise<void> {
		return this.#settled.promise;
	}

	/** Before the prompt is posted: whoever asks is told "pending" from now on. */
	sent(messageId: string): void {
		if (this.#open.size === 0) this.#settled = Promise.withResolvers<void>();
		const blank = { accepted: false, answer: null, trouble: null, interrupted: false, seenBusy: !this.#idle };
		this.#open.set(messageId, this.#open.get(messageId) ?? { messageId, ...blank });
	}

	accepted(messageId: string): void {
		const turn = this.#open.get(messageId);
		if (turn === undefined) return;
		turn.accepted = true;
		this.#judge();
	}

	/** It was never said. */
	forget(messageId: string): void {
		this.#open.delete(messageId);
		this.#rest();
	}

	answered(message: AssistantMessage): void {
		const turn = this.#open.get(message.parentId);
		if (turn === undefined) return;
		turn.answer = message;
		turn.accepted = true;
		this.#answerTogether(turn, message);
		if (this.#idle) this.#listener.onDoubt("idle");
	}

	/** What is said while the agent works is taken up at once and answered as one: as the last of it. */
	#answerTogether(last: Open, message: AssistantMessage): void {
		for (const turn of this.#open.values()) {
			if (turn === last) return;
			if (turn.accepted) turn.answer ??= message;
		}
	}

	/** An abort also ends the message it cut short, which says so; told by itself it may be the echo of an earlier one. */
	failed(trouble: AgentTrouble): void {
		if (trouble.code === "MessageAbortedError") return;
		for (const turn of this.#open.values()) turn.trouble ??= trouble;
		this.#judge();
	}

	/** Before the abort is posted: its end may be heard before its answer. */
	interrupt(): void {
		for (const turn of this.#open.values()) turn.interrupted = true;
		this.#judge();
	}

	/** The abort was not taken: they go on. */
	goOn(): void {
		for (const turn of this.#open.values()) turn.interrupted = false;
	}

	status(status: ConversationStatus): void {
		this.#idle = status.type === "idle";
		if (!this.#idle) for (const turn of this.#open.values()) work(turn);
		this.#judge();
	}

	/** The server was asked, and this is how things are: what settles is settled. */
	confirmed(): void {
		for (const turn of [...this.#open.values()]) if (this.#idle && isOver(turn)) this.#settle(turn);
		this.#arm();
	}

	/** Nothing more will be heard. */
	close(): void {
		clearTimeout(this.#timer);
		this.#open.clear();
		this.#settled.resolve();
	}

	#judge(): void {
		clearTimeout(this.#timer);
		if (!this.#idle || !this.pending) return;
		const over = [...this.#open.values()].filter(isOver);
		if (over.some(isDoubtful)) this.#listener.onDoubt("idle");
		else for (const turn of over) this.#settle(turn);
		this.#arm();
	}

	/** Idle that lasts is an end as well; the server is asked once more before it counts. */
	#arm(): void {
		clearTimeout(this.#timer);
		const waiting = [...this.#open.values()].filter((turn) => turn.accepted);
		if (!this.#idle || waiting.length === 0) return;
		const isHeard = waiting.some((turn) => turn.seenBusy || turn.interrupted);
		const ms = isHeard ? this.#times.unansweredMs : this.#times.unheardMs;
		this.#timer = setTimeout(() => this.#giveUp(waiting), ms);
	}

	#giveUp(waiting: Open[]): void {
		for (const turn of waiting) turn.trouble ??= turn.answer === null ? UNANSWERED : null;
		this.#listener.onDoubt("silence");
	}

	#settle(turn: Open): void {
		if (!this.#open.delete(turn.messageId)) return;
		const { messageId, answer } = turn;
		const error = (turn.trouble === UNANSWERED ? null : turn.trouble) ?? answer?.error ?? null;
		this.#listener.onTurn({
			messageId,
			ended: endOf(turn, error),
			text: answer?.text ?? "",
			error,
			tokens: answer?.tokens ?? null,
		});
		this.#rest();
	}

	#rest(): void {
		if (this.#open.size > 0) return;
		clearTimeout(this.#timer);
		this.#settled.resolve();
	}
}

const UNANSWERED: AgentTrouble = { code: "unanswered", message: "", statusCode: null };

function work(turn: Open): void {
	turn.seenBusy = true;
	if (turn.trouble === UNANSWERED) turn.trouble = null;
}

/** An interrupt ends what was seen to work: a prompt that has not begun yet may still begin. */
function isOver(turn: Open): boolean {
	if (!turn.accepted) return false;
	return turn.answer !== null || turn.trouble !== null || (turn.interrupted && turn.seenBusy);
}

/** A model that wants tools has not finished, unless a denial ended its turn; and an answer may be older than idle. */
function isDoubtful(turn: Open): boolean {
	if (!turn.seenBusy || turn.trouble === UNANSWERED) return true;
	return (
		turn.answer !== null && GOING_ON.has(turn.answer.finish) && !turn.interrupted && turn.trouble === null
	);
}

function endOf(turn: Open, error: AgentTrouble | null): Turn["ended"] {
	if (turn.interrupted) return "interrupted";
	if (error !== null) return "failed";
	return turn.answer === null ? "unanswered" : "answered";
}
