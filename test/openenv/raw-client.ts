import { once } from "node:events";
import { type ClientOptions, WebSocket } from "ws";

export type Json = Record<string, unknown>;

/** A client that says exactly what it is told, and keeps what it hears in order. */
export class RawClient implements AsyncDisposable {
	readonly socket: WebSocket;
	readonly #heard: string[] = [];
	readonly #listeners: ((text: string) => void)[] = [];

	private constructor(url: string, options: ClientOptions) {
		this.socket = new WebSocket(url.replace(/^http/, "ws"), options);
		this.socket.on("message", (data) => {
			const text = data.toString();
			const listener = this.#listeners.shift();
			if (listener === undefined) this.#heard.push(text);
			else listener(text);
		});
	}

	static async connect(url: string, options: ClientOptions = {}): Promise<RawClient> {
		const client = new RawClient(url, options);
		await once(client.socket, "open");
		return client;
	}

	/** Frames that arrived and nobody asked for. */
	get unread(): number {
		return this.#heard.length;
	}

	send(frame: Json | string): void {
		this.socket.send(typeof frame === "string" ? frame : JSON.stringify(frame));
	}

	async next(): Promise<Json> {
		const text =
			this.#heard.shift() ?? (await new Promise<string>((resolve) => this.#listeners.push(resolve)));
		return JSON.parse(text);
	}

	async ask(frame: Json | string): Promise<Json> {
		this.send(frame);
		return this.next();
	}

	async closed(): Promise<number> {
		if (this.socket.readyState === WebSocket.CLOSED) throw new Error("listen before it closes");
		const [code] = await once(this.socket, "close");
		return code;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		if (this.socket.readyState === WebSocket.CLOSED) return;
		const closed = once(this.socket, "close");
		this.socket.terminate();
		await closed;
	}
}

/** The tool's own answer inside a reply. */
export function resultOf(reply: Json): Json {
	const { observation } = reply.data as { observation: { result: { data: string } } };
	return JSON.parse(observation.result.data);
}
