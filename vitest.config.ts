import { defineConfig } from "vitest/config";

export default defineConfig({
	test: {
		include: ["test/**/*.test.ts"],
		// Only to end what hangs: an agent needs 4 s on a quiet machine and a minute on a busy one.
		testTimeout: 180_000,
		hookTimeout: 180_000,
		expect: { poll: { timeout: 30_000 } },
		// A test that passes only at a second try is a bug of the product or of the test: it is found, not retried. Who asks
		// for retries on the command line gets the names of those tests at the end of the run.
		retry: 0,
		setupFiles: ["test/fixtures/last-rollouts.ts"],
		// Two cores, real agents: more workers only make every clock lie.
		maxWorkers: 2,
	},
});
