import { randomBytes } from "node:crypto";
import { type ModelCall, toCallSummary } from "../model/call.ts";
import type { Failure } from "../model/failure.ts";
import { RequestLedger } from "./agent-side/request-ledger.ts";
import type { Tap, TapOptions, TapStop } from "./gateway.ts";

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
	readonly options: TapOptions;
	readonly ledger = new RequestLedger();
	readonly counts = { calls: 0, promptTokens: 0, completionTokens: 0 };
	lastUpstreamError: Failure | null = null;
	stop: TapStop | null = null;
	/** Prompts refused as too long since the last one that fitted. */
	overflows = 0;
	readonly #flights = new Set<Flight>();
	readonly #onRevoke: () => void;
	#landed: (() => void)[] = [];
	#isRevoked = false;

	constructor(options: TapOptions, onRevoke: () => void) {
		this.options = options;
		this.key = options.key ?? `pk-${randomBytes(24).toString("base64url")}`;
		this.#onRevoke = onRevoke;
	}

	get inFlight(): number {
		return this.#flights.size;
	}

	/** What is used up, if anything. */
	get exhausted(): string | null {
		const { budget } = this.options;
		const { calls, promptTokens, completionTokens } = this.counts;
		if (calls >= budget.maxCalls) return "calls";
		if (promptTokens >= (budget.maxInputTokens ?? Number.POSITIVE_INFINITY)) return "input tokens";
		if (completionTokens >= (budget.maxOutputTokens ?? Number.POSITIVE_INFINITY)) return "output tokens";
		if (promptTokens + completionTokens >= (budget.maxTotalTokens ?? Number.POSITIVE_INFINITY))
			return "total tokens";
		return null;
	}

	get outputTokensLeft(): number | null {
		const { maxOutputTokens, maxTotalTokens } = this.options.budget;
		const { promptTokens, completionTokens } = this.counts;
		const left = Math.min(
			(maxOutputTokens ?? Number.POSITIVE_INFINITY) - completionTokens,
			(maxTotalTokens ?? Number.POSITIVE_INFINITY) - promptTokens - completionTokens,
		);
		return Number.isFinite(left) ? left : null;
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
			index: this.counts.calls,
			signal: controller.signal,
			cut: (why) => controller.abort(new CutError(why)),
			[Symbol.dispose]: () => this.#land(flight),
		};
		this.counts.calls += 1;
		this.#flights.add(flight);
		return flight;
	}

	/** Counts the call and keeps it; resolves when it is on disk. */
	async record(call: ModelCall): Promise<void> {
		const summary = toCallSummary(call);
		this.counts.promptTokens += summary.promptTokens;
		this.counts.completionTokens += summary.completionTokens;
		await this.options.sink?.write(call);
	}

	get isRevoked(): boolean {
		return this.#isRevoked;
	}

	async revoke(): Promise<void> {
		if (!this.#isRevoked) this.#onRevoke();
		this.#isRevoked = true;
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
