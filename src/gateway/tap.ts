import { randomBytes } from "node:crypto";
import type { ModelCall } from "../model/call.ts";
import type { Failure } from "../model/failure.ts";
import { RequestLedger } from "./agent-side/request-ledger.ts";
import type { Tap, TapOptions, TapStop } from "./gateway.ts";
import { Seam } from "./stitch/stitch.ts";
import { TokenBudget } from "./token-budget.ts";

/** A call between its request and its record. */
export interface Flight extends Disposable {
	readonly index: number;
	/** Aborted when the agent hangs up or the tap is revoked. */
	readonly signal: AbortSignal;
	cut(why: "agent_gone" | "revoked"): void;
}

/** The reason a flight was cut; thrown by whoever was waiting. */
export class CutError extends Error {
	override readonly name = "CutError";
	readonly why: "agent_gone" | "revoked";

	constructor(why: "agent_gone" | "revoked") {
		super(why);
		this.why = why;
	}
}

/** One rollout's side of the gateway. Holds counters and hashes only, so its size does not grow with the rollout. */
export class RolloutTap implements Tap {
	readonly key: string;
	options: TapOptions;
	readonly ledger = new RequestLedger();
	readonly budget: TokenBudget;
	#calls = 0;
	readonly #revocation = new AbortController();
	/** What was said in its sessions, so that they stay one chain of tokens. */
	seam: Seam;
	lastUpstreamError: Failure | null = null;
	stop: TapStop | null = null;
	/** Prompts refused as too long since the last one that fitted. */
	overflows = 0;
	readonly #flights = new Set<Flight>();
	readonly #onRevoke: () => void;
	#landed: (() => void)[] = [];

	constructor(options: TapOptions, onRevoke: () => void) {
		this.options = options;
		this.budget = new TokenBudget(options.budget);
		this.seam = new Seam(options);
		this.key = options.key ?? `pk-${randomBytes(24).toString("base64url")}`;
		this.#onRevoke = onRevoke;
	}

	get inFlight(): number {
		return this.#flights.size;
	}

	get counts(): Tap["counts"] {
		return { calls: this.#calls, ...this.budget.spent };
	}

	/** What is used up, if anything. */
	get exhausted(): string | null {
		return this.#calls >= this.options.budget.maxCalls ? "calls" : this.budget.exhausted;
	}

	/** Fires when the key is revoked. */
	get revoked(): AbortSignal {
		return this.#revocation.signal;
	}

	setModel(model: string): void {
		const { endpoint } = this.options;
		if (model === endpoint.model) return;
		this.options = { ...this.options, endpoint: { ...endpoint, model } };
		this.seam = new Seam(this.options);
	}

	/** The first reason wins and is told once. */
	end(stop: TapStop): void {
		if (this.stop !== null) return;
		this.stop = stop;
		this.options.onStop?.(stop);
	}

	takeOff(): Flight {
		const controller = new AbortController();
		const flight: Flight = {
			index: this.#calls,
			signal: controller.signal,
			cut: (why) => controller.abort(new CutError(why)),
			[Symbol.dispose]: () => this.#land(flight),
		};
		this.#calls += 1;
		this.#flights.add(flight);
		return flight;
	}

	/** Keeps the call; resolves when it is on disk. */
	async record(call: ModelCall): Promise<void> {
		await this.options.sink?.write(call);
	}

	get isRevoked(): boolean {
		return this.revoked.aborted;
	}

	async revoke(): Promise<void> {
		if (!this.isRevoked) this.#onRevoke();
		this.#revocation.abort();
		for (const flight of this.#flights) flight.cut("revoked");
		if (this.#flights.size === 0) return;
		await new Promise<void>((resolve) => this.#landed.push(resolve));
	}

	async [Symbol.asyncDispose](): Promise<void> {
		await this.revoke();
	}

	#land(flight: Flight): void {
		this.#flights.delete(flight);
		if (this.#flights.size > 0) return;
		for (const resolve of this.#landed.splice(0)) resolve();
	}
}
