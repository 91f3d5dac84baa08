import pg from "pg";

const RECONNECT_MS = 500;

/**
 * One connection that hears of every change, opened when first needed. When it is lost it comes back by itself, and
 * says so: what was missed meanwhile must be looked up.
 */
export class PostgresListener implements AsyncDisposable {
	readonly #config: pg.ClientConfig;
	readonly #channel: string;
	readonly #onPayload: (payload: string) => void;
	readonly #onConnected: () => void;
	#client: pg.Client | null = null;
	#retry: NodeJS.Timeout | null = null;
	#connecting: Promise<void> | null = null;
	#closed = false;

	constructor(
		config: pg.ClientConfig,
		channel: string,
		on: { payload: (payload: string) => void; connected: () => void },
	) {
		this.#config = config;
		this.#channel = channel;
		this.#onPayload = on.payload;
		this.#onConnected = on.connected;
	}

	/** Harmless to repeat. */
	start(): void {
		if (this.#closed || this.#client || this.#connecting || this.#retry) return;
		this.#connecting = this.#connect().finally(() => {
			this.#connecting = null;
		});
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#closed = true;
		if (this.#retry) clearTimeout(this.#retry);
		await this.#connecting;
		await this.#client?.end();
	}

	async #connect(): Promise<void> {
		const client = new pg.Client(this.#config);
		client.on("notification", ({ payload }) => this.#onPayload(payload ?? ""));
		client.on("error", () => this.#lost(client));
		client.on("end", () => this.#lost(client));
		this.#client = client;
		try {
			await client.connect();
			await client.query(`LISTEN "${this.#channel}"`);
			this.#onConnected();
		} catch {
			// The server may be restarting: the next try follows, and whoever queries meanwhile sees the error itself.
			await client.end().catch(() => undefined);
			this.#lost(client);
		}
	}

	#lost(client: pg.Client): void {
		if (this.#client !== client) return;
		this.#client = null;
		if (this.#closed) return;
		this.#retry ??= setTimeout(() => {
			this.#retry = null;
			this.start();
		}, RECONNECT_MS);
	}
}
