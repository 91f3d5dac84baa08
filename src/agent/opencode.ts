import { createHash } from "node:crypto";
import { within } from "../errors.ts";
import type { AgentOptions } from "../model/request.ts";
import type { Agent } from "./agent.ts";
import { OPENCODE_VERSION } from "./opencode-config.ts";
import { bootRunDriver } from "./run-driver.ts";
import { bootServe } from "./serve.ts";

/** OpenCode, by either driver. */
export const opencode: Agent = {
	name: "opencode",
	version: OPENCODE_VERSION,
	fingerprint,
	boot: async (box, options, key, signal) =>
		await within(
			"agent",
			"agent_boot_failed",
			async () =>
				options.driver === "serve"
					? await bootServe(box, options, fingerprint(options), key, signal)
					: await bootRunDriver(box, options, fingerprint(options), key),
			{ retryable: true },
		),
};

function fingerprint(options: AgentOptions): string {
	const sorted = Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1));
	return createHash("sha256")
		.update(JSON.stringify([OPENCODE_VERSION, sorted]))
		.digest("hex")
		.slice(0, 16);
}
