import type { Log } from "../log.ts";
import type { Toolbox } from "../tools/toolbox.ts";
import { Environment, type EnvironmentOptions } from "./environment.ts";
import type { OpenEnvSettings } from "./settings.ts";

/** A session without a socket cannot be seen to leave; unused for so long it has left. */
const RPC_IDLE_TIMEOUT_MS = 3_600_000;
const REAP_EVERY_MS = 5_000;

/** All places are taken. */
export class CapacityError extends Error {
	override readonly name = "CapacityError";
	readonly active_sessions: number;
	readonly max_sessions: number;

	constructor(active: number, max: number) {
		super(`Server at capacity: ${active}/${max} sessions active. Cannot accept new connections.`);
		this.active_sessions = active;
		this.max_sessions = max;
	}
}

interface Seat {
	environment: Environment;
	/** Null: held over JSON-RPC, where nothing tells that the holder has gone. */
	onIdle: (() => void) | null;
}

/** Who holds an environment; each session has one, and there are only so many. */
export class EnvironmentPool implements Disposable {
	readonly #tools: Toolbox;
	readonly #settings: OpenEnvSettings;
	readonly #options: EnvironmentOptions;
	readonly #seats = new Map<string, Seat>();
	readonly #reaper: NodeJS.Timeout;
	#isClosing = false;

	constructor(tools: Toolbox, settings: OpenEnvSettings, log?: Log) {
		this.#tools = tools;
		this.#settings = settings;
		this.#options = { whenAbandoned: () => (this.#isClosing ? "detach" : settings.onDisconnect), log };
		this.#reaper = setInterval(() => this.reap(Date.now()), REAP_EVERY_MS).unref();
	}

	get active(): number {
		return this.#seats.size;
	}

	/** Takes a place, or throws CapacityError. `onIdle` is told when it was taken back. */
	open(onIdle: (() => void) | null = null): Environment {
		const { maxSessions } = this.#settings;
		if (this.#seats.size >= maxSessions) throw new CapacityError(this.#seats.size, maxSessions);
		const environment = this.throwAway();
		this.#seats.set(environment.id, { environment, onIdle });
		return environment;
	}

	/** An environment for one question, without a place. */
	throwAway(): Environment {
		return new Environment(this.#tools, this.#options);
	}

	get(id: string): Environment | undefined {
		return this.#seats.get(id)?.environment;
	}

	close(id: string): boolean {
		return this.#seats.delete(id);
	}

	/** From here on it is we who hang up, which is no reason to abort anyone's rollout. */
	beginClosing(): void {
		this.#isClosing = true;
	}

	reap(now: number): void {
		for (const [id, { environment, onIdle }] of this.#seats) {
			const limitMs = this.#settings.idleTimeoutMs ?? (onIdle === null ? RPC_IDLE_TIMEOUT_MS : null);
			if (limitMs === null || environment.idleMs(now) <= limitMs) continue;
			this.#seats.delete(id);
			onIdle?.();
		}
	}

	[Symbol.dispose](): void {
		clearInterval(this.#reaper);
		this.#seats.clear();
	}
}
