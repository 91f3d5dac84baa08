import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import { conformance } from "./conformance.ts";

conformance({
	name: "local",
	isolated: true,
	open: () => openLocalBackend(),
	missing: async () => {
		await using backend = await openLocalBackend();
		const { ok, checks } = await backend.available();
		return ok ? null : checks.flatMap((check) => (check.ok ? [] : [check.fix ?? check.detail])).join("; ");
	},
});
