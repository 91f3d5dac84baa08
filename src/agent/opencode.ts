import { within } from "../errors.ts";
import type { Agent } from "./agent.ts";
import { OPENCODE_VERSION } from "./opencode-config.ts";
import { bootRunDriver } from "./run-driver.ts";
import { bootServe } from "./serve/boot.ts";

/** OpenCode, by either driver. */
export const opencode: Agent = {
	name: "opencode",
	version: OPENCODE_VERSION,
	boot: async (box, options, key, signal, ownModel) =>
		await within(
			"agent",
			"agent_boot_failed",
			async () =>
				options.driver === "serve"
					? await bootServe(box, options, { key, ownModel }, signal)
					: await bootRunDriver(box, options, { key, ownModel }),
			{ retryable: true },
		),
};
