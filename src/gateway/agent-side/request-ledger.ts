import type { Origin } from "./purpose.ts";

/** What is remembered of a request: no content, only how it went. */
interface Entry {
	index: number;
	isOpen: boolean;
	isDelivered: boolean;
	/** Upstream requests that failed in a row. */
	failures: number;
	repeats: number;
}

const MAX_ENTRIES = 256;

/** Tells a retry from a new sample, and both from a loop. Bounded, whatever the rollout's length. */
export class RequestLedger {
	readonly #entries = new Map<string, Entry>();
	readonly #lastDelivered = new Map<string, string>();

	static keyOf(origin: Origin, digest: string): string {
		return `${origin.sessionId}\n${origin.purpose}\n${digest}`;
	}

	/** Index of the undelivered call that this one repeats. */
	begin(key: string, index: number): number | null {
		const known = this.#entries.get(key);
		this.#entries.delete(key);
		const isRetry = known !== undefined && !known.isDelivered && !known.isOpen;
		this.#entries.set(key, {
			index,
			isOpen: true,
			isDelivered: false,
			failures: isRetry ? known.failures : 0,
			repeats: known?.repeats ?? 0,
		});
		if (this.#entries.size > MAX_ENTRIES) this.#entries.delete(this.#entries.keys().next().value!);
		return isRetry ? known.index : null;
	}

	/** Full deliveries of this request with nothing else of its session in between. */
	repeats(key: string, sessionId: string | null): number {
		return this.#lastDelivered.get(sessionId ?? "") === key ? (this.#entries.get(key)?.repeats ?? 0) : 0;
	}

	/** Returns how many upstream requests have now failed in a row. */
	failed(key: string): number {
		const entry = this.#entries.get(key);
		if (!entry) return 1;
		entry.failures += 1;
		return entry.failures;
	}

	end(key: string, index: number, sessionId: string | null, isDelivered: boolean): void {
		const entry = this.#entries.get(key);
		if (entry?.index !== index) return;
		entry.isOpen = false;
		entry.isDelivered = isDelivered;
		if (!isDelivered) return;
		const session = sessionId ?? "";
		entry.repeats = this.#lastDelivered.get(session) === key ? entry.repeats + 1 : 1;
		entry.failures = 0;
		this.#lastDelivered.delete(session);
		this.#lastDelivered.set(session, key);
		if (this.#lastDelivered.size > MAX_ENTRIES)
			this.#lastDelivered.delete(this.#lastDelivered.keys().next().value!);
	}
}
