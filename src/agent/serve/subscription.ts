import type { ConversationEvent } from "../agent.ts";

export interface QueueLimits {
	events: number;
	bytes: number;
}

/** 10,000 events are minutes of a busy agent; the bytes keep a hostile one from filling memory with few large ones. */
export const QUEUE_LIMITS: QueueLimits = { events: 10_000, bytes: 128 * 1024 * 1024 };

/**
 * One listener and what it has not seen yet. A slow one hurts only itself: when its queue is full the oldest pieces of text go first,
 * then the oldest events, and it is told how many. What a conversation is about (messages, turns, asks, the end) stays.
 */
export class Subscription implements Disposable {
	readonly #handler: (event: ConversationEvent) => unknown;
	readonly #onError: (error: unknown) => void;
	readonly #limits: QueueLimits;
	#queue: { event: ConversationEvent; sizeBytes: number }[] = [];
	#bytes = 0;
	#dropped = 0;
	#isOver = false;
	/** The handler now running, if it takes its time. Never rejects. */
	#running: Promise<void> | null = null;

	constructor(
		handler: (event: ConversationEvent) => unknown,
		onError: (error: unknown) => void,
		limits: QueueLimits = QUEUE_LIMITS,
	) {
		this.#handler = handler;
		// Told once: the telling may reach the same handler.
		let hasFailed = false;
		this.#onError = (error) => {
			if (!hasFailed) {
				hasFailed = true;
				onError(error);
			}
		};
		this.#limits = limits;
	}

	push(event: ConversationEvent, sizeBytes: number): void {
		if (this.#isOver) return;
		this.#queue.push({ event, sizeBytes });
		this.#bytes += sizeBytes;
		while (this.#queue.length > this.#limits.events || this.#bytes > this.#limits.bytes)
			if (!this.#drop()) break;
		this.#pump();
	}

	/** Resolves when all that was pushed has been handled. */
	async drained(): Promise<void> {
		while (this.#running !== null) await this.#running;
	}

	[Symbol.dispose](): void {
		this.#isOver = true;
		this.#queue = [];
	}

	#pump(): void {
		while (this.#running === null && !this.#isOver) {
			const event = this.#next();
			if (event === undefined) return;
			const result = this.#call(event);
			if (result instanceof Promise) this.#await(result);
		}
	}

	#next(): ConversationEvent | undefined {
		if (this.#dropped > 0) {
			const dropped = this.#dropped;
			this.#dropped = 0;
			return { type: "overflow", dropped };
		}
		const next = this.#queue.shift();
		this.#bytes -= next?.sizeBytes ?? 0;
		return next?.event;
	}

	#call(event: ConversationEvent): unknown {
		try {
			return this.#handler(event);
		} catch (error) {
			this.#onError(error);
			return undefined;
		}
	}

	#await(result: Promise<unknown>): void {
		this.#running = result
			.then(() => {}, this.#onError)
			.then(() => {
				this.#running = null;
				this.#pump();
			});
	}

	#drop(): boolean {
		const isText = this.#queue.findIndex(({ event }) => event.type === "text");
		const at =
			isText !== -1
				? isText
				: this.#queue.findIndex(({ event }) => event.type === "agent-event" || event.type === "noise");
		if (at === -1) return false;
		this.#bytes -= this.#queue[at]!.sizeBytes;
		this.#queue.splice(at, 1);
		this.#dropped += 1;
		return true;
	}
}
