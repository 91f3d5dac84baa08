import { defineConfig } from "vitest/config";

export default defineConfig({
	test: {
		include: ["test/**/*.test.ts"],
		// Only to end what hangs: an agent needs 4 s on a quiet machine and a minute on a busy one.
		testTimeout: 180_000,
		hookTimeout: 180_000,
		// Real engines, kernels and databases on two busy cores: a second look tells a slow machine from a broken product.
		// What passes only then is named at the end of the run.
		retry: process.env.CI ? 1 : 0,
		// Two cores, real agents: more workers only make every clock lie.
		maxWorkers: 2,
	},
});
