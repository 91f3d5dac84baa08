import type { ServerResponse } from "node:http";

type Piece = string | Buffer;

/** Our side of the agent's connection for one call. */
export class AgentReply {
	readonly #response: ServerResponse;
	readonly #held: Piece[] = [];
	#isHolding = false;
	#isOver = false;
	#hasSpoken = false;

	constructor(response: ServerResponse, onGone: () => void) {
		this.#response = response;
		response.on("close", () => {
			if (!response.writableFinished) onGone();
		});
	}

	/** The agent has seen part of an answer, not just comments: another try would say it twice. */
	get hasSpoken(): boolean {
		return this.#hasSpoken;
	}

	/** Bytes have gone out: an error status can no longer be sent. */
	get isStarted(): boolean {
		return this.#response.headersSent;
	}

	/** The agent hung up. */
	get isGone(): boolean {
		return this.#response.destroyed || this.#response.closed;
	}

	startStream(): void {
		if (this.isStarted || this.isGone) return;
		this.#response.writeHead(200, {
			"content-type": "text/event-stream; charset=utf-8",
			"cache-control": "no-cache",
		});
	}

	/** False asks the caller to wait for `onDrain`. */
	write(pieces: Piece[]): boolean {
		if (pieces.length === 0) return true;
		if (this.#isHolding) {
			this.#held.push(...pieces);
			return true;
		}
		this.#hasSpoken = true;
		return this.#send(join(pieces));
	}

	/** Tells the agent that we are still there. */
	comment(): void {
		if (!this.#isHolding && !this.isGone) this.#send(": keep-alive\n\n");
	}

	#send(piece: Piece): boolean {
		const socket = this.isStarted ? this.#response.socket : null;
		if (socket !== null && this.#response.chunkedEncoding) return socket.write(toChunk(piece));
		this.startStream();
		return this.#response.write(piece);
	}

	onDrain(listener: () => void): void {
		(this.#response.socket ?? this.#response).once("drain", listener);
	}

	/** From here on nothing goes out before `release`. */
	hold(): void {
		this.#isHolding = true;
	}

	/** A new try of the same call: what was held belongs to the broken one. */
	forget(): void {
		this.#held.length = 0;
		this.#isHolding = false;
	}

	/** Lets out what was held, and ends. */
	release(tail: Piece[]): void {
		if (this.#isOver || this.isGone) return;
		this.#isOver = true;
		this.startStream();
		this.#response.end(join([...this.#held, ...tail]));
	}

	sendJson(status: number, body: unknown, headers: Record<string, string> = {}): void {
		if (this.#isOver || this.isGone) return;
		this.#isOver = true;
		const bytes = Buffer.from(JSON.stringify(body));
		this.#response.writeHead(status, {
			"content-type": "application/json",
			"content-length": bytes.length,
			...headers,
		});
		this.#response.end(bytes);
	}

	/** Breaks the connection: the agent sees an aborted answer, never a clean end. */
	destroy(): void {
		this.#isOver = true;
		this.#response.destroy();
	}
}

function join(pieces: Piece[]): Piece {
	if (pieces.length === 1) return pieces[0]!;
	if (pieces.every((piece) => typeof piece === "string")) return pieces.join("");
	return Buffer.concat(pieces.map((piece) => (typeof piece === "string" ? Buffer.from(piece) : piece)));
}

/**
 * One chunk of HTTP's chunked coding. A token is one small write, and there are very many: framed here it is a single
 * buffer instead of the four that node:http hands to the kernel, behind a tick of its own.
 */
function toChunk(piece: Piece): Piece {
	if (typeof piece === "string") return `${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`;
	return Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`, "latin1"), piece, CRLF]);
}

const CRLF = Buffer.from("\r\n");
