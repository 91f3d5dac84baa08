import { messageOf, RolloutError } from "../../errors.ts";
import { toTimerMs } from "../../model/duration.ts";
import type {
	AgentMessage,
	Ask,
	CloseReason,
	Conversation,
	ConversationEvent,
	ConversationStatus,
	PermissionHandler,
	QuestionHandler,
	SendOptions,
} from "../agent.ts";
import { type ServeClient, toPrompt } from "./client.ts";
import { keepListening, type ServeEvent } from "./feed.ts";
import type { AskGate } from "./gate.ts";
import { mintId } from "./ids.ts";
import { parseModel } from "./model.ts";
import { Router } from "./router.ts";
import { refusal, sendOnce } from "./send.ts";
import { QUEUE_LIMITS, type QueueLimits, Subscription } from "./subscription.ts";
import { SERVE_TIMES, type ServeTimes } from "./times.ts";

export interface ServeConversationOptions {
	/** As the caller spells it; the server's own spelling is learnt from the session. */
	directory: string;
	/** Of a new session; null lets OpenCode ask the model for one. */
	title?: string | null;
	/** Goes on with this session. */
	sessionId?: string | undefined;
	/** provider/model */
	model?: string | undefined;
	times?: Partial<ServeTimes>;
	maxFrameBytes?: number;
	queueLimits?: QueueLimits;
	/** Resolves when the server's process has ended, where somebody knows. */
	serverEnded?: Promise<{ exitCode: number | null; signal: string | null }>;
}

const MAX_FRAME_BYTES = 64 * 1024 * 1024;

/** Of what is no event: enough to see what it is. */
const NOISE_CHARACTERS = 200;

/** A live session of an `opencode serve`, over any number of connections. */
export class ServeConversation implements Conversation {
	readonly #client: ServeClient;
	readonly #options: ServeConversationOptions;
	readonly #times: ServeTimes;
	readonly #stop = new AbortController();
	readonly #subscriptions = new Set<Subscription>();
	readonly #closed = Promise.withResolvers<CloseReason>();
	readonly #connected = Promise.withResolvers<void>();
	readonly #router: Router;
	readonly #gate: AskGate;
	#listening: Promise<void> = Promise.resolve();
	#model: { providerID: string; modelID: string } | undefined;
	#interrupting: Promise<void> | null = null;
	#finishing: Promise<void> | null = null;
	#isSilent = false;

	constructor(client: ServeClient, options: ServeConversationOptions) {
		this.#client = client;
		this.#options = options;
		this.#times = { ...SERVE_TIMES, ...options.times };
		if (options.model !== undefined) this.setModel(options.model);
		this.#router = new Router(client, options.directory, this.#times, this.#stop.signal, {
			emit: (event, sizeBytes) => this.#emit(event, sizeBytes),
			onSynced: () => this.#connected.resolve(),
		});
		this.#gate = this.#router.gate;
		void options.serverEnded?.then(({ exitCode, signal }) => {
			const message = `opencode serve ended while it was needed (${signal ?? `exit code ${exitCode}`})`;
			return this.#finish({ code: "agent_crashed", message, exitCode });
		});
	}

	get sessionId(): string | null {
		return this.#router.mirror.root;
	}

	get status(): ConversationStatus {
		return this.#router.mirror.status();
	}

	get pending(): boolean {
		return this.#router.turns.pending || this.status.type !== "idle";
	}

	get closed(): Promise<CloseReason> {
		return this.#closed.promise;
	}

	/** Listens, and makes or finds its session; resolves when what is known is true. */
	async start(): Promise<void> {
		const { sessionId, title = null } = this.#options;
		if (sessionId !== undefined) await this.#router.attach(sessionId);
		this.#listening = this.#listen();
		const made = sessionId === undefined ? this.#client.createSession(title) : null;
		// Whichever fails first is told; the other's failure has the same cause.
		made?.catch(() => {});
		await Promise.race([this.#connected.promise, this.#failToStart()]);
		if (made !== null) this.#router.begin(await made);
	}

	subscribe(handler: (event: ConversationEvent) => unknown): Disposable {
		const onError = (error: unknown) =>
			this.#emit({ type: "note", text: `a listener failed: ${messageOf(error)}` }, 100);
		const subscription = new Subscription(handler, onError, this.#options.queueLimits ?? QUEUE_LIMITS);
		this.#subscriptions.add(subscription);
		if (this.sessionId !== null) subscription.push({ type: "session-start", sessionId: this.sessionId }, 100);
		return {
			[Symbol.dispose]: () => {
				this.#subscriptions.delete(subscription);
				subscription[Symbol.dispose]();
			},
		};
	}

	decideWith(handler: PermissionHandler): Disposable {
		return this.#gate.handleWith("permission", handler);
	}

	answerWith(handler: QuestionHandler): Disposable {
		return this.#gate.handleWith("question", handler);
	}

	async send(text: string, options: SendOptions = {}): Promise<string> {
		const sessionId = this.#requireOpen();
		const ids = options.ids ?? { messageId: mintId("msg"), partId: mintId("prt") };
		const model = options.model === undefined ? this.#model : parseModel(options.model);
		const prompt = toPrompt(text, ids, {
			model,
			agent: options.agent,
			variant: options.variant,
		});
		const { turns } = this.#router;
		turns.sent(ids.messageId);
		try {
			const { traceId } = options;
			await sendOnce(this.#client, { sessionId, prompt, traceId }, this.#times, this.#stop.signal);
		} catch (error) {
			turns.forget(ids.messageId);
			throw error;
		}
		turns.accepted(ids.messageId);
		return ids.messageId;
	}

	async interrupt(): Promise<void> {
		const sessionId = this.#requireOpen();
		if (!this.pending) return;
		this.#interrupting ??= this.#interrupt(sessionId).finally(() => {
			this.#interrupting = null;
			this.#gate.goOn();
		});
		await this.#interrupting;
	}

	setModel(model: string): void {
		this.#model = parseModel(model);
	}

	async settled(): Promise<void> {
		await Promise.race([this.#router.turns.settled, this.#closed.promise]);
	}

	asks(): Ask[] {
		return this.#gate.asks();
	}

	async messages(): Promise<AgentMessage[]> {
		return this.sessionId === null ? [] : await this.#client.messages(this.sessionId);
	}

	async finish(reason = "it was closed"): Promise<void> {
		await this.#finish({ code: "asked", message: reason, exitCode: null });
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.finish();
	}

	#requireOpen(): string {
		if (this.#finishing !== null)
			throw new RolloutError("agent", "conversation_closed", "the conversation is closed");
		const { sessionId } = this;
		if (sessionId === null)
			throw new RolloutError("agent", "conversation_not_started", "the conversation has not started yet");
		return sessionId;
	}

	async #listen(): Promise<void> {
		const { maxFrameBytes = MAX_FRAME_BYTES } = this.#options;
		const open = (signal: AbortSignal) => this.#client.openEvents(signal);
		const listener = {
			onConnected: () => this.#router.connected(),
			onEvent: (event: ServeEvent) => this.#router.hear(event),
			onNoise: (what: "unparseable" | "oversize", head: string) =>
				this.#emit({ type: "noise", what, head: this.#client.headOf(head, NOISE_CHARACTERS) }, head.length),
			onLost: (why: string) => this.#router.lost(why),
		};
		try {
			await keepListening(open, listener, this.#times, maxFrameBytes, this.#stop.signal);
		} catch (error) {
			this.#connected.reject(error);
			this.#connected.promise.catch(() => {});
			void this.#finish({ code: "agent_auth_failed", message: messageOf(error), exitCode: null });
		}
	}

	async #failToStart(): Promise<never> {
		const late = this.#times.sleep(this.#times.startMs, this.#stop.signal);
		const closed = await Promise.race([this.#closed.promise, late]);
		const message = closed ? closed.message : (this.#router.lostBecause ?? "opencode serve sent no event");
		throw new RolloutError("agent", "agent_api_error", `the conversation did not start: ${message}`, {
			retryable: true,
		});
	}

	/** No allow may be under way when the turn is aborted, and none may follow: OpenCode would still run the tool. */
	async #interrupt(sessionId: string): Promise<void> {
		const { turns } = this.#router;
		await this.#gate.holdBack();
		turns.interrupt();
		try {
			await this.#abort(sessionId);
		} catch (error) {
			turns.goOn();
			throw error;
		}
		await this.#withdrawAsks();
		const limit = AbortSignal.timeout(toTimerMs(this.#times.interruptMs));
		const late = this.#times.sleep(this.#times.interruptMs, this.#stop.signal).then(() => "late");
		for (;;) {
			// A prompt that was taken but had not begun when the abort came begins all the same.
			const begun = this.#router.nextBusy().then(() => "begun");
			const first = await Promise.race([turns.settled.then(() => "settled"), begun, late]);
			if (first !== "begun" || limit.aborted) return;
			await this.#abort(sessionId);
			await this.#withdrawAsks();
		}
	}

	async #abort(sessionId: string): Promise<void> {
		const failure = refusal(await this.#client.abort(sessionId, this.#times.interruptMs), "the abort");
		if (failure !== null) throw failure;
	}

	/** An abort leaves asks behind that nobody waits for any more. */
	async #withdrawAsks(): Promise<void> {
		try {
			const [permissions, questions] = await Promise.all([
				this.#client.pendingAsks("permission"),
				this.#client.pendingAsks("question"),
			]);
			await this.#gate.withdrawAll([
				...permissions.map((properties) => ({ kind: "permission" as const, properties })),
				...questions.map((properties) => ({ kind: "question" as const, properties })),
			]);
		} catch (error) {
			await this.#gate.withdrawAll([]);
			this.#emit({ type: "note", text: `asks could not be read after the abort: ${messageOf(error)}` }, 100);
			this.#router.resyncSoon();
		}
	}

	#finish(reason: CloseReason): Promise<void> {
		this.#finishing ??= this.#close(reason);
		return this.#finishing;
	}

	async #close(reason: CloseReason): Promise<void> {
		this.#stop.abort();
		this.#gate.close();
		this.#router.turns.close();
		this.#emit({ type: "closed", reason }, 100);
		this.#isSilent = true;
		const listeners = Promise.all([...this.#subscriptions].map((subscription) => subscription.drained()));
		const limit = new AbortController();
		await Promise.race([listeners, this.#times.sleep(this.#times.finishMs, limit.signal)]);
		limit.abort();
		for (const subscription of this.#subscriptions) subscription[Symbol.dispose]();
		this.#subscriptions.clear();
		this.#client.close();
		this.#closed.resolve(reason);
		await this.#listening;
	}

	#emit(event: ConversationEvent, sizeBytes: number): void {
		if (this.#isSilent) return;
		for (const subscription of this.#subscriptions) subscription.push(event, sizeBytes);
	}
}
