import type { GatewayLimits } from "../limits.ts";
import type { UpstreamFault } from "./fault.ts";

/** What to do about a fault: try again unseen, break the agent's stream so that it tries again, or give up. */
export type NextStep = { type: "again"; delayMs: number } | { type: "break" } | { type: "give-up" };

export interface Trouble {
	fault: UpstreamFault;
	/** In a row, this one included. */
	failures: number;
	/** The agent has seen part of the answer. */
	hasSpoken: boolean;
	/** What this call has waited for rate limits already. */
	waitedMs: number;
}

export function nextStep({ fault, failures, hasSpoken, waitedMs }: Trouble, limits: GatewayLimits): NextStep {
	if (!fault.retryable) return { type: "give-up" };
	if (fault.code === "rate_limited") {
		const asked = fault.retryAfterMs ?? limits.retryDelayMs * 2 ** failures;
		const delayMs = Math.min(Math.max(asked, limits.retryDelayMs), limits.rateLimitDelayMs);
		return waitedMs + delayMs > limits.rateLimitTotalMs ? { type: "give-up" } : { type: "again", delayMs };
	}
	if (failures >= (fault.code === "provider_hang" ? limits.maxHangs : limits.maxFailures))
		return { type: "give-up" };
	if (hasSpoken) return { type: "break" };
	return { type: "again", delayMs: limits.retryDelayMs * 2 ** (failures - 1) };
}
