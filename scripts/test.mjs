import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { childEnvironment, newEnoughNode, ROOT, runInForeground } from "./node24.mjs";
import { ensureReady } from "./setup.mjs";

/** A run that ends without counting, set-up included, has failed. */
let counts = { passed: 0, failed: 1, skipped: 0, flaky: [] };
process.on("exit", () => {
	const { passed, failed, skipped, flaky } = counts;
	for (const name of flaky) process.stdout.write(`passed only when tried again: ${name}\n`);
	if (flaky.length > 0) process.stdout.write(`${flaky.length} of those that passed needed another try\n`);
	process.stdout.write(`${passed} passed, ${failed} failed, ${skipped} skipped\n`);
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
