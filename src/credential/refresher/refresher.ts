import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { StorePlace } from "../../store/place.ts";
import type { RefreshOrder } from "../refresh.ts";
import type { FromRefresher, ToRefresher } from "./wire.ts";

const EXTENSION = import.meta.url.endsWith(".ts") ? "ts" : "js";
const ENTRY = fileURLToPath(new URL(`./main.${EXTENSION}`, import.meta.url));
/** All that it may see of our surroundings: how to reach a database and a provider, and no key. */
const PASSED_ON = ["PATH", "HOME", "TMPDIR", "TZ", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/** Refreshes logins where nothing that ends this process can cut a refresh in two. Started with the first one. */
export interface Refresher extends AsyncDisposable {
	/** Resolves when it is over: the new token is stored, or what came in between. */
	refresh(order: RefreshOrder): Promise<FromRefresher["trouble"]>;
}

export function openRefresher(place: StorePlace): Refresher {
	let running: Running | null = null;
	let orders = 0;
	return {
		refresh(order) {
			running = running?.isAlive ? running : new Running(place);
			return running.ask({ id: ++orders, order });
		},
		async [Symbol.asyncDispose]() {
			await running?.[Symbol.asyncDispose]();
		},
	};
}

class Running implements AsyncDisposable {
	readonly #child: ChildProcess;
	readonly #exited: Promise<unknown>;
	readonly #waiting = new Map<number, (trouble: FromRefresher["trouble"]) => void>();
	isAlive = true;

	constructor(place: StorePlace) {
		const env = Object.fromEntries(
			Object.entries(process.env).filter(([name]) => PASSED_ON.includes(name) || name.startsWith("PG")),
		);
		this.#child = spawn(process.execPath, [ENTRY], {
			...{ detached: true, env, cwd: "/" },
			stdio: ["pipe", "pipe", "ignore"],
		});
		this.#exited = once(this.#child, "exit").catch(() => {});
		const end = () => this.#end();
		this.#child.once("exit", end).once("error", end);
		// It may be gone when we speak to it; its exit says so.
		this.#child.stdin!.on("error", () => {});
		createInterface({ input: this.#child.stdout! }).on("line", (line) => {
			const { id, trouble } = JSON.parse(line) as FromRefresher;
			this.#waiting.get(id)?.(trouble);
			this.#waiting.delete(id);
			if (this.#waiting.size === 0) this.#hold(false);
		});
		this.#say({ place });
		this.#hold(false);
	}

	ask(order: Extract<ToRefresher, { id: number }>): Promise<FromRefresher["trouble"]> {
		return new Promise((resolve) => {
			this.#waiting.set(order.id, resolve);
			this.#hold(true);
			this.#say(order);
		});
	}

	/** Waits for what is under way. */
	async [Symbol.asyncDispose](): Promise<void> {
		this.#hold(true);
		this.#child.stdin!.end();
		await this.#exited;
	}

	#say(words: ToRefresher): void {
		this.#child.stdin!.write(`${JSON.stringify(words)}\n`);
	}

	/** Only while somebody waits for it does it keep our process from ending. */
	#hold(isWaitedFor: boolean): void {
		const parts = [this.#child, this.#child.stdin, this.#child.stdout] as { ref?(): void; unref?(): void }[];
		for (const part of parts) isWaitedFor ? part.ref?.() : part.unref?.();
	}

	#end(): void {
		this.isAlive = false;
		for (const answer of this.#waiting.values())
			answer({ type: "outage", message: "the process that refreshes logins ended" });
		this.#waiting.clear();
	}
}
