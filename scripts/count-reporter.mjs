import { writeFileSync } from "node:fs";

/**
 * Leaves the true counts of a run in the file PADDOCK_TEST_COUNTS names, for scripts/test.mjs to print last. What passed only when
 * it was tried again is named: it is a bug that has not been found yet.
 */
export default class CountReporter {
	onTestRunEnd(modules, unhandledErrors) {
		const counts = { passed: 0, failed: unhandledErrors.length, skipped: 0, flaky: [] };
		for (const module of modules) {
			// A file that could not be loaded has no tests to count, and must not look like a success.
			counts.failed += module.errors().length;
			for (const test of module.children.allTests()) {
				const { state } = test.result();
				if (state === "passed") counts.passed += 1;
				else if (state === "skipped") counts.skipped += 1;
				else counts.failed += 1;
				if (test.diagnostic()?.flaky) counts.flaky.push(`${module.relativeModuleId}: ${test.fullName}`);
			}
			for (const suite of module.children.allSuites()) counts.failed += suite.errors().length;
		}
		if (process.env.PADDOCK_TEST_COUNTS)
			writeFileSync(process.env.PADDOCK_TEST_COUNTS, JSON.stringify(counts));
	}
}
