import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { childEnvironment, newEnoughNode, ROOT, runInForeground } from "./node24.mjs";
import { ensureReady } from "./setup.mjs";

ensureReady({ everything: process.env.PADDOCK_REQUIRE_ALL === "1" });

const folder = mkdtempSync(join(tmpdir(), "paddock-test-"));
const countsFile = join(folder, "counts.json");
const code = await runInForeground(
	newEnoughNode(),
	[
		"node_modules/vitest/vitest.mjs",
		"run",
		"--reporter=default",
		"--reporter=./scripts/count-reporter.mjs",
	].concat(process.argv.slice(2)),
	{ cwd: ROOT, env: childEnvironment({ PADDOCK_TEST_COUNTS: countsFile }) },
);
const counts = readCounts();
rmSync(folder, { recursive: true, force: true });

process.stdout.write(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
process.exit(code !== 0 ? code : counts.failed > 0 ? 1 : 0);

/** A run that ended without its counts has failed. */
function readCounts() {
	try {
		return JSON.parse(readFileSync(countsFile, "utf8"));
	} catch {
		process.stdout.write("The test run ended before it could count.\n");
		return { passed: 0, failed: 1, skipped: 0 };
	}
}
