import { randomBytes } from "node:crypto";
import { isOutage } from "../errors.ts";
import type { Credentials, Hold } from "../store/credentials.ts";

export interface HoldClocks {
	/** A hold that is not renewed ends after so long; it is renewed far more often. */
	ttlMs: number;
	renewMs: number;
	/** Its use stops so long before it may be another's, whether the store said so or said nothing. */
	marginMs: number;
}

const CLOCKS: HoldClocks = { ttlMs: 60_000, renewMs: 10_000, marginMs: 10_000 };

/** A credential in our hands: renewed by itself, given back in the end. */
export interface HeldCredential extends AsyncDisposable {
	readonly hold: Hold;
	readonly ttlMs: number;
	/** Fires when it is another's now, or when nobody can say that it is not. */
	readonly lost: AbortSignal;
}

/** Throws a UsageError when there is no such credential, or no room for one more holder. */
export async function holdCredential(
	credentials: Credentials,
	label: string,
	user: string,
	options: { clocks?: HoldClocks; evenDead?: boolean } = {},
): Promise<HeldCredential> {
	const { clocks = CLOCKS, ...how } = options;
	const startedAt = performance.now();
	// Whoever comes back under the same name after a crash is another holder.
	const holder = `${user} ${randomBytes(4).toString("hex")}`;
	const hold = await credentials.acquire(label, holder, clocks.ttlMs, how);
	return new Holding(credentials, hold, startedAt, clocks);
}

class Holding implements HeldCredential {
	readonly hold: Hold;
	readonly #credentials: Credentials;
	readonly #clocks: HoldClocks;
	readonly #lost = new AbortController();
	readonly #renewing: NodeJS.Timeout;
	#deadline: NodeJS.Timeout;

	constructor(credentials: Credentials, hold: Hold, startedAt: number, clocks: HoldClocks) {
		this.#credentials = credentials;
		this.#clocks = clocks;
		this.hold = hold;
		this.#deadline = this.#deadlineAfter(startedAt);
		this.#renewing = setInterval(() => void this.#renew(), clocks.renewMs);
	}

	get ttlMs(): number {
		return this.#clocks.ttlMs;
	}

	get lost(): AbortSignal {
		return this.#lost.signal;
	}

	async [Symbol.asyncDispose](): Promise<void> {
		this.#stop();
		try {
			await this.#credentials.release(this.hold);
		} catch (error) {
			// A store that is away cannot be told; the hold ends by itself.
			if (!isOutage(error)) throw error;
		}
	}

	/** An error is no permission to go on, and no loss either: the deadline decides. */
	async #renew(): Promise<void> {
		const askedAt = performance.now();
		const isOurs = await this.#credentials.renew(this.hold, this.ttlMs).catch(() => null);
		if (isOurs === null || this.#lost.signal.aborted) return;
		clearTimeout(this.#deadline);
		if (isOurs) this.#deadline = this.#deadlineAfter(askedAt);
		else this.#lose();
	}

	#deadlineAfter(askedAt: number): NodeJS.Timeout {
		const leftMs = askedAt + this.ttlMs - this.#clocks.marginMs - performance.now();
		return setTimeout(() => this.#lose(), Math.max(0, leftMs));
	}

	#lose(): void {
		this.#stop();
		this.#lost.abort();
	}

	#stop(): void {
		clearInterval(this.#renewing);
		clearTimeout(this.#deadline);
	}
}
