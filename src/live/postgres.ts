import { randomBytes } from "node:crypto";
import type pg from "pg";
import type { LiveText } from "../model/live-text.ts";
import { clientConfig, openPool, type PostgresOptions } from "../store/postgres/connection.ts";
import { PostgresListener } from "../store/postgres/listener.ts";
import type { Live, Voice } from "./live.ts";
import { LocalLive } from "./local.ts";
import type { Piece } from "./texts.ts";
import { type Frame, packFirst, toFrame, toPiece, unpack } from "./wire.ts";

/** Whoever listens says so again and again; a process that died stops being spoken to. */
const WANT_EVERY_MS = 10_000;
const WANTED_FOR_MS = 35_000;
/** With the database away for long, the oldest is not worth keeping: whoever comes back asks for all of it. */
const MAX_WAITING = 2_000;

/**
 * Live texts across processes, by way of the database that they share anyway: a worker needs no open port, and nobody but them can
 * listen. Only what somebody listens to is sent. One notification is on its way at a time and takes along all that was
 * said meanwhile, so that a burst of tokens costs one message each round trip.
 */
export class PostgresLive implements Live {
	readonly #own = randomBytes(6).toString("hex");
	readonly #channel: string;
	readonly #pool: pg.Pool;
	readonly #listener: PostgresListener;
	readonly #local: LocalLive;
	readonly #wanted = new Map<string, number>();
	readonly #renewing: NodeJS.Timeout;
	#waiting: Frame[] = [];
	#sending: Promise<void> | null = null;

	constructor(options: Omit<PostgresOptions, "connections">) {
		const connection = { ...options, connections: 1 };
		this.#channel = `paddock_${options.schema}_live`;
		this.#pool = openPool(connection);
		this.#listener = new PostgresListener(clientConfig(connection), this.#channel, {
			payload: (payload) => this.#heard(payload),
			connected: () => {
				for (const id of this.#local.spoken()) this.#send({ here: id });
				this.#wantAll();
			},
		});
		this.#local = new LocalLive({
			said: (id, piece) => this.#pass(id, () => toFrame(id, piece)),
			finished: (id, partId) => this.#pass(id, () => ({ end: id, p: partId })),
			listened: (id, isHeard) => {
				if (isHeard && !this.#local.speaks(id)) this.#want(id);
			},
		});
		this.#renewing = setInterval(() => this.#wantAll(), WANT_EVERY_MS).unref();
	}

	speak(id: string): Voice {
		this.#listener.start();
		const voice = this.#local.speak(id);
		// Whoever looked before there was anybody to ask asks again.
		this.#send({ here: id });
		return voice;
	}

	hear(id: string, onText: (text: LiveText) => void): Disposable {
		return this.#local.hear(id, onText);
	}

	async [Symbol.asyncDispose](): Promise<void> {
		clearInterval(this.#renewing);
		await this.#sending;
		await this.#listener[Symbol.asyncDispose]();
		await this.#pool.end();
	}

	#want(id: string): void {
		this.#listener.start();
		this.#send({ want: id });
	}

	#wantAll(): void {
		for (const id of this.#local.awaited()) this.#want(id);
	}

	/** To other processes, if any of them listens. */
	#pass(id: string, toFrameNow: () => Frame): void {
		const until = this.#wanted.get(id);
		if (until === undefined) return;
		if (until < performance.now()) this.#wanted.delete(id);
		else this.#send(toFrameNow());
	}

	#heard(payload: string): void {
		const notification = unpack(payload);
		if (notification === null || notification.from === this.#own) return;
		for (const frame of notification.frames) {
			if ("want" in frame) this.#tellAll(frame.want);
			else if ("here" in frame) this.#answer(frame.here);
			else if ("end" in frame) this.#local.finish(frame.end, frame.p);
			else this.#take(toPiece(frame));
		}
	}

	#answer(id: string): void {
		if (this.#local.awaited().includes(id)) this.#want(id);
	}

	#take({ id, piece }: { id: string; piece: Piece }): void {
		// Something was missed: all of it is asked for again.
		if (!this.#local.speaks(id) && this.#local.take(id, piece) === "gap") this.#want(id);
	}

	#tellAll(id: string): void {
		if (!this.#local.speaks(id)) return;
		this.#wanted.set(id, performance.now() + WANTED_FOR_MS);
		for (const piece of this.#local.all(id)) this.#send(toFrame(id, piece));
	}

	#send(frame: Frame): void {
		const last = this.#waiting.at(-1);
		const joined = last === undefined ? null : join(last, frame);
		if (joined === null) this.#waiting.push(frame);
		else this.#waiting[this.#waiting.length - 1] = joined;
		if (this.#waiting.length > MAX_WAITING) this.#waiting.shift();
		this.#sending ??= this.#sendAll().finally(() => {
			this.#sending = null;
		});
	}

	async #sendAll(): Promise<void> {
		// What is said in this very moment goes along.
		await Promise.resolve();
		while (this.#waiting.length > 0) {
			const payload = packFirst(this.#own, this.#waiting);
			try {
				await this.#pool.query("SELECT pg_notify($1, $2)", [this.#channel, payload]);
			} catch {
				// It is lost, and will be noticed as a gap; the log has all of it in the end.
			}
		}
	}
}

/** Two pieces that follow each other are one. */
function join(last: Frame, next: Frame): Frame | null {
	if (!("t" in last) || !("t" in next) || next.x) return null;
	if (last.i !== next.i || last.p !== next.p || last.o + last.t.length !== next.o) return null;
	return { ...last, t: last.t + next.t };
}
