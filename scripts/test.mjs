import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { childEnvironment, newEnoughNode, ROOT, runInForeground } from "./node24.mjs";
import { ensureReady } from "./setup.mjs";

/** A run that ends without counting, set-up included, has failed. */
let counts = { passed: 0, failed: 1, skipped: 0, flaky: [] };
process.on("exit", () => {
	for (const name of counts.flaky) process.stdout.write(`passed at the second try only: ${name}\n`);
	process.stdout.write(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped\n`);
});

ensureReady({ everything: process.env.PADDOCK_REQUIRE_ALL === "1" });

const folder = mkdtempSync(join(tmpdir(), "paddock-test-"));
const countsFile = join(folder, "counts.json");
const reporters = ["--reporter=default", "--reporter=./scripts/count-reporter.mjs"];
const code = await runInForeground(
	newEnoughNode(),
	["node_modules/vitest/vitest.mjs", "run", ...reporters, ...process.argv.slice(2)],
	{ cwd: ROOT, env: childEnvironment({ PADDOCK_TEST_COUNTS: countsFile }) },
);
try {
	counts = JSON.parse(readFileSync(countsFile, "utf8"));
} catch {
	process.stdout.write("The test run ended before it could count.\n");
}
rmSync(folder, { recursive: true, force: true });
process.exit(code !== 0 ? code : counts.failed > 0 ? 1 : 0);
