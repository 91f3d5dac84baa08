import { openLocalProvider } from "../../src/sandbox/local/local.ts";
import { conformance } from "./conformance.ts";

conformance({
	name: "local",
	isolated: true,
	open: () => openLocalProvider(),
	missing: async () => {
		await using provider = await openLocalProvider();
		const { ok, checks } = await provider.available();
		return ok ? null : checks.flatMap((check) => (check.ok ? [] : [check.fix ?? check.detail])).join("; ");
	},
});
