import { z } from "zod";
import type { Config } from "../config.ts";
import { UsageError } from "../errors.ts";

export interface OpenEnvSettings {
	/** Environments that may be open at once, over /ws, WS /mcp and JSON-RPC sessions together. */
	maxSessions: number;
	/** What becomes of a rollout whose caller vanished or gave up. */
	onDisconnect: "abort" | "detach";
	/** Closes sessions that said nothing for so long while no call was under way; null: never, save for JSON-RPC. */
	idleTimeoutMs: number | null;
}

const Variables = z.object({
	MAX_CONCURRENT_ENVS: z.coerce.number().int().min(1).max(100_000).optional(),
	PADDOCK_ON_DISCONNECT: z.enum(["abort", "detach"]).optional(),
	PADDOCK_SESSION_TIMEOUT_S: z.coerce.number().min(1).max(86_400).optional(),
});

export function readOpenEnvSettings(config: Config): OpenEnvSettings {
	const parsed = Variables.safeParse(config.env);
	if (!parsed.success) {
		const issue = parsed.error.issues[0]!;
		throw new UsageError(`${issue.path.join(".")}: ${issue.message}`, "bad_config");
	}
	const { MAX_CONCURRENT_ENVS, PADDOCK_ON_DISCONNECT, PADDOCK_SESSION_TIMEOUT_S } = parsed.data;
	return {
		maxSessions: MAX_CONCURRENT_ENVS ?? config.concurrency,
		onDisconnect: PADDOCK_ON_DISCONNECT ?? "abort",
		idleTimeoutMs: PADDOCK_SESSION_TIMEOUT_S === undefined ? null : PADDOCK_SESSION_TIMEOUT_S * 1000,
	};
}
