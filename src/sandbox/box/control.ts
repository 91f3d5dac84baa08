import { randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import { RolloutError } from "../../errors.ts";
import { readFrame, readLine } from "./frames.ts";
import { Patience } from "./patience.ts";
import { encodeFrame, type Hello, type Order, type Request, TO_BOX } from "./wire.ts";

const ANSWER_TIMEOUT_MS = 30_000;
/** The box may open connections as it likes; the host keeps this many that lead nowhere. */
const MAX_STRANGERS = 32;

/** One operation in the box: what it sends and receives, and a way to signal the process behind it. */
export interface Operation {
	readonly connection: Duplex;
	/** By which later operations refer to it. */
	readonly nonce: string;
	signal(name: NodeJS.Signals): void;
}

/**
 * The host's end of the control channel. The init is the first to say hello, before any agent code runs; a second
 * hello, or a connection without a nonce that was just given out over the first, is dropped.
 */
export class Control {
	/** How long the init may take to answer; agent code of its uid could have stopped it. */
	readonly answerTimeoutMs: number;
	readonly hello: Promise<Hello>;
	/** Ends what keeps the init from answering; false when that is not the box's own doing. */
	makeRoom: () => Promise<boolean> = async () => false;
	#greet!: (hello: Hello) => void;
	#refuse!: (error: Error) => void;
	#control: Duplex | null = null;
	#lost: RolloutError | null = null;
	readonly #awaited = new Map<string, { resolve: (d: Duplex) => void; reject: (e: Error) => void }>();
	readonly #connections = new Set<Duplex>();
	/** Connections that have not said who they are, oldest first. */
	readonly #strangers = new Set<Duplex>();

	constructor(answerTimeoutMs = ANSWER_TIMEOUT_MS) {
		this.answerTimeoutMs = answerTimeoutMs;
		this.hello = new Promise((resolve, reject) => {
			this.#greet = resolve;
			this.#refuse = reject;
		});
		this.hello.catch(() => {});
	}

	/** For every connection that reaches the control socket, from whomever. */
	accept(connection: Duplex): void {
		this.#connections.add(connection);
		this.#strangers.add(connection);
		connection.on("error", () => connection.destroy());
		connection.on("close", () => {
			this.#connections.delete(connection);
			this.#strangers.delete(connection);
		});
		this.#turnAway();
		readLine(connection).then(
			(line) => this.#admit(connection, line),
			() => connection.destroy(),
		);
	}

	async open(request: Request): Promise<Operation> {
		if (this.#lost !== null) throw this.#lost;
		const nonce = randomBytes(18).toString("base64url");
		await using _patience = this.expectAnswer();
		const connection = await new Promise<Duplex>((resolve, reject) => {
			this.#awaited.set(nonce, { resolve, reject });
			this.#order({ open: nonce });
		});
		connection.write(encodeFrame(TO_BOX.request, JSON.stringify(request)));
		return { connection, nonce, signal: (name) => this.#order({ signal: nonce, name }) };
	}

	/** Unless it is disposed of, or refreshed, in time, the box is lost. */
	expectAnswer(): Patience {
		return new Patience(this.answerTimeoutMs, this.makeRoom, () => this.lose(unresponsive()));
	}

	/** From now on every operation fails with `error`. */
	lose(error: RolloutError): void {
		this.#lost ??= error;
		this.#refuse(this.#lost);
		for (const { reject } of this.#awaited.values()) reject(this.#lost);
		this.#awaited.clear();
		for (const connection of this.#connections) connection.destroy();
	}

	get lost(): RolloutError | null {
		return this.#lost;
	}

	#order(order: Order): void {
		if (this.#control !== null && !this.#control.destroyed) this.#control.write(`${JSON.stringify(order)}\n`);
	}

	#admit(connection: Duplex, line: string | null): void {
		this.#strangers.delete(connection);
		const message = parseObject(line);
		const nonce = typeof message?.nonce === "string" ? message.nonce : "";
		const waiting = this.#awaited.get(nonce);
		if (waiting !== undefined) {
			this.#awaited.delete(nonce);
			waiting.resolve(connection);
			return;
		}
		if (message?.hello !== 1 || this.#control !== null || this.#lost !== null) {
			connection.destroy();
			return;
		}
		this.#control = connection;
		connection.on("close", () =>
			this.lose(new RolloutError("sandbox", "box_lost", "the box is gone", { retryable: true })),
		);
		this.#greet(toHello(message));
		void this.#drain(connection);
	}

	/** One place is kept for each operation that is about to identify itself. */
	#turnAway(): void {
		const room = MAX_STRANGERS + this.#awaited.size;
		for (const stranger of this.#strangers) {
			if (this.#strangers.size <= room) return;
			this.#strangers.delete(stranger);
			stranger.destroy();
		}
	}

	/** The init has nothing more to say on this connection; reading on is how its end is noticed. */
	async #drain(connection: Duplex): Promise<void> {
		await readFrame(connection).catch(() => null);
		connection.destroy();
	}
}

function unresponsive(): RolloutError {
	const message = "the box no longer answers: its init was stopped, or the machine is overloaded";
	return new RolloutError("sandbox", "box_unresponsive", message, { retryable: true });
}

function parseObject(line: string | null): Record<string, unknown> | null {
	try {
		const value: unknown = JSON.parse(line ?? "");
		return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
	} catch {
		return null;
	}
}

function toHello(message: Record<string, unknown>): Hello {
	const ports = Array.isArray(message.ports) ? message.ports.filter((port) => Number.isInteger(port)) : [];
	return { pid: Number(message.pid), ports, hidden: message.hidden === true };
}
