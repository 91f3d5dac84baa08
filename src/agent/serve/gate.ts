import { messageOf } from "../../errors.ts";
import type { Ask, AskEnd, PermissionHandler, QuestionHandler } from "../agent.ts";
import { toAsk } from "./ask.ts";
import { isAgentId, type ServeAnswer, type ServeClient } from "./client.ts";
import { type Decision, messageFor, toDenial, toReply } from "./decision.ts";
import { RecentSet } from "./recent.ts";

export interface GateTimes {
	/** How long an ask may wait for its decision; then the answer is no. */
	decideMs: number;
	/** Pauses between tries of a reply that did not get through; the last one repeats. */
	retryMs: readonly number[];
	sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export interface GateSurroundings {
	/** Whether the ask's session belongs to this conversation; may have to ask the server. */
	owns(sessionId: string): Promise<boolean>;
	isRoot(sessionId: string): boolean;
	/** Whether the session still works on what it asked for. */
	isBusy(sessionId: string): Promise<boolean>;
	onAsk(ask: Ask): void;
	onEnd(end: AskEnd): void;
	onNote(text: string): void;
	/** Something that waits was passed over: the lists are read again. */
	sweepSoon(): void;
}

type Kind = Ask["kind"];
type Handlers = { permission: PermissionHandler; question: QuestionHandler };

interface Held {
	ask: Ask;
	state: "queued" | "deciding" | "replying" | "done";
	decision: Decision | null;
	/** A reply of ours may have arrived although we never heard so. */
	mayHaveReplied: boolean;
	/** Fires when a decision is no longer wanted. */
	cancel: AbortController;
	deadline?: NodeJS.Timeout;
}

const TOO_LATE = "Nobody decided in time, so this was not permitted. Go on without it.";
const MAX_HELD = 1_000;
/** An allow on its way takes milliseconds; an interrupt waits no longer than this for it. */
const HOLD_BACK_MS = 1_000;

/**
 * Takes what the agent asks, obtains one decision for each ask, and delivers it until the agent has it. An ask reaches exactly one
 * end: allowed, denied, answered elsewhere or withdrawn. Nothing is allowed once its turn was interrupted or is over: OpenCode would
 * still run the tool.
 */
export class AskGate {
	readonly #client: ServeClient;
	readonly #around: GateSurroundings;
	readonly #times: GateTimes;
	readonly #held = new Map<string, Held>();
	readonly #seen = new RecentSet();
	/** Answered, also those we never held: a list may be older than the answer. */
	readonly #gone = new RecentSet();
	readonly #handlers: { [K in Kind]?: Handlers[K] } = {};
	readonly #allowing = new Set<Promise<unknown>>();
	#isInterrupting = false;
	readonly #stop = new AbortController();

	constructor(client: ServeClient, around: GateSurroundings, times: GateTimes) {
		this.#client = client;
		this.#around = around;
		this.#times = times;
	}

	handleWith<K extends Kind>(kind: K, handler: Handlers[K]): Disposable {
		const slots: { [K in Kind]?: Handlers[K] } = this.#handlers;
		slots[kind] = handler;
		for (const held of this.#held.values())
			if (held.ask.kind === kind && held.state === "queued") void this.#decide(held);
		return {
			[Symbol.dispose]: () => {
				if (slots[kind] === handler) delete slots[kind];
			},
		};
	}

	asks(): Ask[] {
		return [...this.#held.values()].filter(({ state }) => state !== "replying").map(({ ask }) => ask);
	}

	/** From the event stream or from a sweep: whichever comes first. */
	async asked(kind: Kind, properties: Record<string, unknown>): Promise<void> {
		const { id, sessionID } = properties;
		// Beyond the limit the next sweep finds it again.
		if (!isAgentId(id) || !isAgentId(sessionID) || this.#held.size >= MAX_HELD || !this.#seen.add(id)) return;
		if (!(await this.#owns(sessionID, id)) || this.#gone.has(id) || this.#stop.signal.aborted) return;
		const held = this.#hold(kind, properties);
		held.deadline = setTimeout(() => this.#expire(held), this.#times.decideMs);
		this.#around.onAsk(held.ask);
		if (this.#isInterrupting) void this.#reply(held, toDenial(held.ask, "interrupt"));
		else void this.#decide(held);
	}

	/** Somebody answered it: we, a browser, or the agent's server itself, which refuses the siblings of what was refused. */
	replied(id: unknown, reply: unknown): void {
		if (!isAgentId(id)) return;
		this.#gone.add(id);
		const held = this.#held.get(id);
		if (held === undefined) return;
		const outcome = reply === "reject" ? "reject" : held.ask.kind === "question" ? "answer" : "once";
		const isOurs = held.state === "replying" && held.decision !== null && toReply(held.decision) === outcome;
		this.#end(held, outcome, isOurs ? held.decision!.by : "elsewhere");
	}

	/** What we hold and the server no longer does was answered while nobody listened. */
	forgetUnlisted(kind: Kind, listed: Record<string, unknown>[]): void {
		const ids = new Set(listed.map(({ id }) => id));
		for (const held of [...this.#held.values()])
			if (held.ask.kind === kind && !ids.has(held.ask.id) && held.state !== "replying") {
				this.#end(held, "unknown", "elsewhere");
				// Should it be listed once more, it waits all the same.
				this.#seen.delete(held.ask.id);
			}
	}

	/** What waits although its session does not work is the ghost of an aborted turn: refused, never shown. */
	async swept(
		kind: Kind,
		listed: Record<string, unknown>[],
		isBusy: (sessionId: string) => boolean,
	): Promise<void> {
		for (const properties of listed) {
			const { id, sessionID } = properties;
			if (!isAgentId(sessionID)) continue;
			if (isBusy(sessionID)) await this.asked(kind, properties);
			else if (await this.#owns(sessionID, String(id))) void this.#withdraw(kind, properties, "ghost");
		}
	}

	/** From now on nothing is allowed; resolves when no allow is on its way any more. */
	async holdBack(): Promise<void> {
		this.#isInterrupting = true;
		await Promise.race([
			Promise.allSettled(this.#allowing),
			this.#times.sleep(HOLD_BACK_MS, this.#stop.signal),
		]);
	}

	/** After the abort: every ask of ours is refused, those we never heard of too. */
	async withdrawAll(listed: { kind: Kind; properties: Record<string, unknown> }[]): Promise<void> {
		const replies = [...this.#held.values()].map((held) =>
			this.#reply(held, toDenial(held.ask, "interrupt")),
		);
		for (const { kind, properties } of listed)
			if (await this.#owns(String(properties.sessionID), String(properties.id)))
				replies.push(this.#withdraw(kind, properties, "interrupt"));
		await Promise.race([Promise.all(replies), this.#times.sleep(HOLD_BACK_MS, this.#stop.signal)]);
	}

	goOn(): void {
		this.#isInterrupting = false;
	}

	close(): void {
		this.#stop.abort();
		for (const held of [...this.#held.values()]) this.#end(held, "unknown", "close");
	}

	async #owns(sessionId: string, askId: string): Promise<boolean> {
		try {
			return await this.#around.owns(sessionId);
		} catch (error) {
			// A sweep finds it again.
			this.#seen.delete(askId);
			this.#around.onNote(`whose ask ${askId} is could not be found out: ${messageOf(error)}`);
			this.#around.sweepSoon();
			return false;
		}
	}

	async #withdraw(kind: Kind, properties: Record<string, unknown>, by: string): Promise<void> {
		const id = String(properties.id);
		const known = this.#held.get(id);
		if (known !== undefined) return await this.#reply(known, toDenial(known.ask, by));
		this.#seen.add(id);
		if (this.#gone.has(id)) return;
		const held = this.#hold(kind, properties);
		await this.#reply(held, toDenial(held.ask, by));
	}

	#hold(kind: Kind, properties: Record<string, unknown>): Held {
		const ask = toAsk(kind, properties, !this.#around.isRoot(String(properties.sessionID)));
		const held: Held = {
			ask,
			state: "queued",
			decision: null,
			mayHaveReplied: false,
			cancel: new AbortController(),
		};
		this.#held.set(ask.id, held);
		return held;
	}

	async #decide(held: Held): Promise<void> {
		const decision = this.#askHandler(held);
		if (decision === null) return;
		held.state = "deciding";
		try {
			const made = await decision;
			if (held.state === "deciding") await this.#reply(held, made);
		} catch (error) {
			if (held.state !== "deciding") return;
			this.#around.onNote(`whoever decides about ${held.ask.id} failed: ${messageOf(error)}`);
			await this.#reply(held, toDenial(held.ask, "failure"));
		}
	}

	/** Null while nobody is there to be asked. */
	#askHandler({ ask, cancel }: Held): Promise<Decision> | null {
		const { permission, question } = this.#handlers;
		const run = async (answer: () => Promise<Decision>) => await answer();
		if (ask.kind === "permission") return permission ? run(() => permission(ask, cancel.signal)) : null;
		return question ? run(() => question(ask, cancel.signal)) : null;
	}

	#expire(held: Held): void {
		if (held.state === "queued" || held.state === "deciding")
			void this.#reply(held, toDenial(held.ask, "deadline", TOO_LATE));
	}

	/** Until the agent has it. A denial takes the place of an allow that is still on its way, never the other way round. */
	async #reply(held: Held, decision: Decision): Promise<void> {
		if (held.state === "done") return;
		const isReplying = held.state === "replying";
		if (isReplying && toReply(held.decision!) === "reject") return;
		held.state = "replying";
		held.decision = decision;
		clearTimeout(held.deadline);
		held.cancel.abort();
		if (!isReplying) await this.#deliver(held);
	}

	async #deliver(held: Held): Promise<void> {
		const { retryMs, sleep } = this.#times;
		for (let attempt = 0; held.state === "replying"; attempt += 1) {
			const { status, decision } = await this.#tryOnce(held);
			if (held.state !== "replying") return;
			if (status !== null && status >= 200 && status <= 299) return this.#endAs(held, decision);
			// Unknown to the server: answered already, by us if an earlier try went astray.
			if (status === 404)
				return held.mayHaveReplied ? this.#endAs(held, decision) : this.#end(held, "unknown", "elsewhere");
			if (status !== null && status < 500) {
				this.#around.onNote(`the agent refused the answer to ${held.ask.id} with ${status}`);
				return this.#endAs(held, decision);
			}
			held.mayHaveReplied = true;
			await sleep(retryMs[Math.min(attempt, retryMs.length - 1)] ?? 0, this.#stop.signal);
		}
	}

	/** One try with the decision as it is now; no status when nobody answered. */
	async #tryOnce(held: Held): Promise<{ status: number | null; decision: Decision }> {
		let decision = held.decision!;
		try {
			if (toReply(decision) !== "reject" && !(await this.#isStillWanted(held.ask)))
				held.decision = toDenial(held.ask, this.#isInterrupting ? "interrupt" : "ghost");
			decision = held.decision!;
			const posting = this.#post(held.ask, decision);
			if (toReply(decision) !== "reject") this.#allowing.add(posting);
			const { status } = await posting.finally(() => this.#allowing.delete(posting));
			return { status, decision };
		} catch (error) {
			this.#around.onNote(`the answer to ${held.ask.id} did not reach the agent: ${messageOf(error)}`);
			return { status: null, decision };
		}
	}

	async #isStillWanted(ask: Ask): Promise<boolean> {
		return !this.#isInterrupting && (await this.#around.isBusy(ask.sessionId)) && !this.#isInterrupting;
	}

	#post(ask: Ask, decision: Decision): Promise<ServeAnswer> {
		if ("answers" in decision) return this.#client.replyQuestion(ask.id, decision.answers);
		if (decision.behavior === "allow") return this.#client.replyPermission(ask.id, "once");
		return this.#client.replyPermission(ask.id, "reject", messageFor(decision));
	}

	#endAs(held: Held, decision: Decision): void {
		held.decision = decision;
		this.#end(held, toReply(decision), decision.by);
	}

	#end(held: Held, reply: AskEnd["reply"], by: string): void {
		if (held.state === "done") return;
		held.state = "done";
		clearTimeout(held.deadline);
		held.cancel.abort();
		this.#held.delete(held.ask.id);
		const { decision, ask } = held;
		const message =
			decision !== null && "behavior" in decision && decision.behavior === "deny"
				? messageFor(decision)
				: undefined;
		this.#around.onEnd({
			ask,
			reply,
			by,
			...(message === undefined || reply !== "reject" ? {} : { message }),
		});
	}
}
