import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..");

test("a failed test prints its rollouts with their events, and what needed a second try is named", async () => {
	const folder = await mkdtemp(join(tmpdir(), "paddock-failing-"));
	const counts = join(folder, "counts.json");
	const args = [
		...[join(ROOT, "node_modules/vitest/vitest.mjs"), "run", "--retry=1"],
		...["--config", join(ROOT, "test/fixtures/failing/vitest.config.ts")],
		...["--reporter=default", `--reporter=${join(ROOT, "scripts/count-reporter.mjs")}`],
	];
	const env = { ...process.env, PADDOCK_TEST_COUNTS: counts, NO_COLOR: "1" };
	const said = await new Promise<string>((resolve) =>
		execFile(process.execPath, args, { cwd: ROOT, env }, (_error, stdout, stderr) =>
			resolve(stdout + stderr),
		),
	);
	expect(said).toContain('The rollouts of "fails with a rollout"');
	expect(said).toMatch(/ro_\w+ \(unlucky\): completed, attempt 1/);
	expect(said).toMatch(/rollout-queued[\s\S]*reward \{"reward":0\}[\s\S]*rollout-end/);
	expect(JSON.parse(await readFile(counts, "utf8"))).toEqual({
		passed: 1,
		failed: 1,
		skipped: 0,
		flaky: [expect.stringContaining("passes at its second try")],
	});
	await rm(folder, { recursive: true });
});
