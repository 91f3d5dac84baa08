import { messageOf, RolloutError } from "../../errors.ts";
import type { ConversationEvent } from "../agent.ts";
import { isAgentId, isRecord, type ServeClient } from "./client.ts";
import type { ServeEvent } from "./feed.ts";
import { AskGate } from "./gate.ts";
import { SessionMirror } from "./mirror.ts";
import { readState, type ServerState } from "./resync.ts";
import { QUEUE_LIMITS } from "./subscription.ts";
import type { ServeTimes } from "./times.ts";
import { Turns } from "./turns.ts";

export interface RouterListener {
	emit(event: ConversationEvent, sizeBytes: number): void;
	/** What is known is true, for the first time and after every connection. */
	onSynced(): void;
}

const MAX_DEPTH = 50;

interface Syncing {
	connection: number;
	again: boolean;
}

/**
 * Takes what the feed hears to the mirror, the gate and the turns, in order. After every connection events wait until the server has
 * said how things are; whatever comes twice by that is known by its id.
 */
export class Router {
	readonly mirror: SessionMirror;
	readonly turns: Turns;
	readonly gate: AskGate;
	lostBecause: string | null = null;
	readonly #client: ServeClient;
	readonly #times: ServeTimes;
	readonly #signal: AbortSignal;
	readonly #listener: RouterListener;
	/** Our directory as the caller and as the server spell it. */
	readonly #directories: Set<string>;
	readonly #owners = new Map<string, Promise<boolean>>();
	#connection = 0;
	#syncing: Syncing | null = null;
	#lostAt: number | null = null;
	#waiting: ServeEvent[] | null = null;
	#waitingBytes = 0;
	#isConfirming = false;
	#busy = Promise.withResolvers<void>();

	constructor(
		client: ServeClient,
		directory: string,
		times: ServeTimes,
		signal: AbortSignal,
		listener: RouterListener,
	) {
		this.#client = client;
		this.#times = times;
		this.#signal = signal;
		this.#listener = listener;
		this.#directories = new Set([directory]);
		this.turns = new Turns(
			{
				onTurn: (turn) => listener.emit({ type: "turn-end", turn }, turn.text.length),
				onDoubt: (about) => void (about === "idle" ? this.#confirm() : this.#sync()),
			},
			times,
		);
		this.mirror = new SessionMirror({
			onText: (piece) => listener.emit({ type: "text", piece }, piece.text.length + 200),
			onMessage: (message) => listener.emit({ type: "message", message }, message.text.length + 200),
			onAnswered: (message) => this.turns.answered(message),
			onTrouble: (trouble) => this.turns.failed(trouble),
			onStatus: (sessionId, status) => {
				if (sessionId !== this.mirror.root) return;
				if (status.type !== "idle") this.#begun();
				this.turns.status(status);
			},
		});
		this.gate = new AskGate(
			client,
			{
				owns: (sessionId) => this.#owns(sessionId),
				isRoot: (sessionId) => sessionId === this.mirror.root,
				isBusy: async (sessionId) =>
					this.mirror.status(sessionId).type !== "idle" || sessionId in (await client.statuses()),
				onAsk: (ask) => listener.emit({ type: "ask", ask }, 1_000),
				onEnd: (end) => listener.emit({ type: "ask-end", end }, 1_000),
				onNote: (text) => listener.emit({ type: "note", text }, text.length),
				sweepSoon: () => this.resyncSoon(),
			},
			times,
		);
	}

	/** A session made just now. */
	begin(session: { id: string; directory: string | null }): void {
		if (session.directory !== null) this.#directories.add(session.directory);
		this.mirror.setRoot(session.id, true);
		this.#listener.emit({ type: "session-start", sessionId: session.id }, 100);
	}

	/** One that was there before; what it has said so far is history. */
	async attach(sessionId: string): Promise<void> {
		const session = await this.#client.session(sessionId);
		if (session === null)
			throw new RolloutError("agent", "session_not_found", `there is no session ${sessionId}`);
		if (session.directory !== null) this.#directories.add(session.directory);
		this.mirror.setRoot(sessionId, false);
		this.mirror.skip(await this.#client.messages(sessionId));
	}

	connected(): void {
		this.#connection += 1;
		this.mirror.gap();
		const toMs = Date.now();
		if (this.#lostAt !== null) this.#listener.emit({ type: "gap", fromMs: this.#lostAt, toMs }, 100);
		this.#lostAt = null;
		void this.#sync();
	}

	lost(why: string): void {
		this.lostBecause = why;
		if (this.#lostAt !== null || this.#signal.aborted) return;
		this.#lostAt = Date.now();
		this.#listener.emit({ type: "lost", why }, 100);
	}

	hear(event: ServeEvent): void {
		if (this.#waiting === null) {
			this.#route(event);
			return;
		}
		this.#waiting.push(event);
		this.#waitingBytes += event.sizeBytes;
		const isFull = this.#waiting.length > QUEUE_LIMITS.events || this.#waitingBytes > QUEUE_LIMITS.bytes;
		if (!isFull) return;
		// More than we hold while we ask: what is lost here is asked for again.
		this.#waiting = [];
		this.#waitingBytes = 0;
		this.resyncSoon();
	}

	resyncSoon(): void {
		void this.#times.sleep(this.#times.reconnectMs[0] ?? 0, this.#signal).then(() => this.#sync());
	}

	/** Resolves when the root begins to work, from now on. */
	nextBusy(): Promise<void> {
		return this.#busy.promise;
	}

	#begun(): void {
		this.#busy.resolve();
		this.#busy = Promise.withResolvers<void>();
	}

	/** Asks how things are and makes it so; once more when that was wanted meanwhile. */
	async #sync(): Promise<void> {
		const connection = this.#connection;
		if (this.#syncing?.connection === connection) {
			this.#syncing.again = true;
			return;
		}
		const syncing = { connection, again: true };
		this.#syncing = syncing;
		for (let failures = 0; syncing.again && this.#isCurrent(syncing); ) {
			syncing.again = false;
			if (await this.#syncOnce(syncing)) continue;
			const { reconnectMs, sleep } = this.#times;
			await sleep(reconnectMs[Math.min(failures, reconnectMs.length - 1)] ?? 0, this.#signal);
			failures += 1;
			syncing.again = true;
		}
		if (this.#syncing === syncing) this.#syncing = null;
	}

	/** While it fails, events flow and messages wait. */
	async #syncOnce(syncing: Syncing): Promise<boolean> {
		const { root } = this.mirror;
		if (root !== null) this.#waiting ??= [];
		try {
			const state = root === null ? null : await readState(this.#client, root, this.mirror);
			// A newer connection asks again, and hears what this one heard.
			if (!this.#isCurrent(syncing)) return true;
			if (state !== null) this.#makeSo(state);
			this.#listener.onSynced();
			return true;
		} catch (error) {
			if (!this.#isCurrent(syncing)) return true;
			this.#release();
			const text = `the agent could not be asked how things are: ${messageOf(error)}`;
			this.#listener.emit({ type: "note", text }, 300);
			return false;
		}
	}

	#makeSo(state: ServerState): void {
		const isBusy = (sessionId: string) => sessionId in state.statuses;
		this.mirror.reconcile(state);
		// Before what was heard meanwhile: it may tell of asks that are newer than the list.
		this.gate.forgetUnlisted("permission", state.permissions);
		this.gate.forgetUnlisted("question", state.questions);
		this.#release();
		void this.gate.swept("permission", state.permissions, isBusy);
		void this.gate.swept("question", state.questions, isBusy);
		this.turns.confirmed();
	}

	#isCurrent(syncing: Syncing): boolean {
		return syncing.connection === this.#connection && !this.#signal.aborted;
	}

	#release(): void {
		const waiting = this.#waiting ?? [];
		this.#waiting = null;
		this.#waitingBytes = 0;
		for (const event of waiting) this.#route(event);
	}

	/** Idle, asked for rather than heard of: only an answer that no event overtook counts. */
	async #confirm(): Promise<void> {
		if (this.#isConfirming) return;
		this.#isConfirming = true;
		try {
			for (let attempt = 0; !this.#signal.aborted && this.turns.pending; attempt += 1) {
				const told = this.mirror.told;
				const statuses = await this.#client.statuses().catch(() => null);
				if (statuses !== null && told === this.mirror.told) {
					this.mirror.reconcileStatuses(statuses);
					this.turns.confirmed();
					return;
				}
				// Not answered, or overtaken: once more.
				await this.#times.sleep(this.#times.reconnectMs[Math.min(attempt, 4)] ?? 0, this.#signal);
			}
		} finally {
			this.#isConfirming = false;
		}
	}

	#route({ type, properties, directory, sizeBytes }: ServeEvent): void {
		if (directory !== null && !this.#directories.has(directory)) return;
		if (type === "permission.asked") void this.gate.asked("permission", properties);
		if (type === "question.asked") void this.gate.asked("question", properties);
		if (type === "permission.replied") this.gate.replied(properties.requestID, properties.reply);
		if (type === "question.replied") this.gate.replied(properties.requestID, "answer");
		if (type === "question.rejected") this.gate.replied(properties.requestID, "reject");
		// A child is ours from the event on that tells its birth.
		if (type === "session.created") this.mirror.apply(type, properties);
		if (this.#isOurs(properties))
			this.#listener.emit({ type: "agent-event", name: type, properties }, sizeBytes);
		if (type !== "session.created") this.mirror.apply(type, properties);
	}

	#isOurs(properties: Record<string, unknown>): boolean {
		const { sessionID, info, part } = properties;
		const inside = [isRecord(info) ? info.sessionID : null, isRecord(part) ? part.sessionID : null];
		const sessionId =
			[sessionID, ...inside].find(isAgentId) ?? (isRecord(info) && isAgentId(info.id) ? info.id : null);
		return sessionId === null || this.mirror.owns(sessionId) === true;
	}

	/** A child whose birth was missed is known by its parents. */
	async #owns(sessionId: string): Promise<boolean> {
		const known = this.mirror.owns(sessionId);
		if (known !== undefined) return known;
		const asking =
			this.#owners.get(sessionId) ?? this.#askOwner(sessionId).finally(() => this.#owners.delete(sessionId));
		this.#owners.set(sessionId, asking);
		return await asking;
	}

	async #askOwner(sessionId: string): Promise<boolean> {
		const line = [sessionId];
		for (let id = sessionId; line.length < MAX_DEPTH; ) {
			const parentId = (await this.#client.session(id))?.parentId ?? null;
			const isOurs = parentId === null ? false : this.mirror.owns(parentId);
			if (isOurs !== undefined) {
				for (const member of line) isOurs ? this.mirror.adopt(member) : this.mirror.disown(member);
				return isOurs;
			}
			id = parentId!;
			line.push(id);
		}
		return false;
	}
}
