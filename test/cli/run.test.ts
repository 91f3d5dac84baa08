import { spawnSync } from "node:child_process";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, type TestContext, test } from "vitest";
import { isNodeNewEnough } from "../../scripts/node24.mjs";
import { RolloutResult } from "../../src/model/result.ts";
import { boxesOf, remainsOf } from "../fixtures/evidence.ts";
import { requirePart } from "../fixtures/parts.ts";
import { Paddock } from "./paddock.ts";

const FIZZBUZZ = "examples/tasks/fizzbuzz";
const LONG = 120_000;

function requireSandbox(context: TestContext): void {
	requirePart(
		context,
		"bubblewrap",
		spawnSync("bwrap", ["--version"]).status === 0,
		"apt-get install bubblewrap",
	);
}

test("--json prints one object per rollout and nothing else; the calls carry exact tokens", {
	timeout: LONG,
}, async (context) => {
	requireSandbox(context);
	await using paddock = await Paddock.open();
	const out = join(paddock.home, "out");
	const { code, stdout, stderr } = await paddock.run([
		"run",
		FIZZBUZZ,
		"--policy",
		"oracle",
		"--json",
		"--out",
		out,
	]);
	expect(code, stderr).toBe(0);
	const lines = stdout.trim().split("\n");
	expect(lines).toHaveLength(1);
	const result = RolloutResult.parse(JSON.parse(lines[0]!));
	expect(result).toMatchObject({ task_id: "fizzbuzz", reward: 1, outcome: "completed", failure: null });
	const calls = result.proxy_turns.filter((turn) => turn.purpose === "main");
	expect(calls.length).toBeGreaterThanOrEqual(2);
	for (const call of calls) {
		expect(call.completion_token_ids.length).toBeGreaterThan(0);
		expect(call.per_token_logps).toHaveLength(call.completion_token_ids.length);
	}
	expect(await remainsOf([result.sandbox_id])).toEqual([]);
	const saved: unknown = JSON.parse(await readFile(join(out, result.rollout_id, "result.json"), "utf8"));
	expect(saved).toEqual(result);

	const listed = await paddock.run(["list", "--json"]);
	expect(JSON.parse(listed.stdout)).toMatchObject({ id: result.rollout_id, status: "done", reward: 1 });
	const shown = await paddock.run(["show", "last"]);
	expect(shown.stdout).toContain("→ write");
	expect(shown.stdout).toMatch(/1 +main +tool_calls/);
	const exported = await paddock.run(["export", "last", "--format", "trl"]);
	expect(exported.stderr).toMatch(/\d+ rows? of 1 rollout as trl/);
	expect(Object.keys(JSON.parse(exported.stdout.split("\n")[0]!))).toContain("completion_ids");
});

test("a model that does nothing earns 0, which is a result", { timeout: LONG }, async (context) => {
	requireSandbox(context);
	await using paddock = await Paddock.open();
	const { code, stdout } = await paddock.run(["run", FIZZBUZZ, "--policy", "noop", "--json"]);
	expect(JSON.parse(stdout)).toMatchObject({ reward: 0, outcome: "completed" });
	expect(code).toBe(0);
});

test("a failing setup is a failure with exit code 1, and its siblings go on", {
	timeout: LONG,
}, async (context) => {
	requireSandbox(context);
	await using paddock = await Paddock.open();
	const broken = await writeTask(paddock, "broken", "exit 3");
	const { code, stdout } = await paddock.run(["run", broken, FIZZBUZZ, "--policy", "oracle", "--json"]);
	const results = stdout
		.trim()
		.split("\n")
		.map((line) => RolloutResult.parse(JSON.parse(line)));
	expect(results.find((result) => result.task_id === "broken")).toMatchObject({
		outcome: "failed",
		reward: null,
	});
	expect(results.find((result) => result.task_id === "fizzbuzz")).toMatchObject({
		outcome: "completed",
		reward: 1,
	});
	expect(code).toBe(1);
});

test("Ctrl-C aborts, cleans up and says what was kept", { timeout: LONG }, async (context) => {
	requireSandbox(context);
	await using paddock = await Paddock.open();
	const marker = `3${process.pid}.25`;
	const slow = await writeTask(paddock, "slow", `sleep ${marker}`);
	const started = paddock.start(["run", slow, "--policy", "oracle"]);
	await expect.poll(() => processesWith(marker), { timeout: 60_000 }).not.toEqual([]);
	const boxes = await boxesOf(started.child.pid!);
	expect(await remainsOf(boxes)).not.toEqual([]);
	started.child.kill("SIGINT");
	const { code, stdout, stderr } = await started.ended;
	expect(code, stderr).toBe(130);
	expect(stderr).toContain("Stopping 1 rollout");
	expect(stderr).toContain("Stopped. Kept:");
	expect(stdout).toMatch(/slow +– +aborted/);
	expect(await processesWith(marker)).toEqual([]);
	expect(await remainsOf(boxes)).toEqual([]);
});

test("after kill -9 of Paddock no process of the rollout is left, and after the next start nothing at all", {
	timeout: LONG,
}, async (context) => {
	requireSandbox(context);
	await using paddock = await Paddock.open();
	const marker = `4${process.pid}.25`;
	const slow = await writeTask(paddock, "slow", `sleep ${marker}`);
	const started = paddock.start(["run", slow, "--policy", "oracle"]);
	await expect.poll(() => processesWith(marker), { timeout: 60_000 }).not.toEqual([]);
	const boxes = await boxesOf(started.child.pid!);
	expect(boxes).toHaveLength(1);
	started.child.kill("SIGKILL");
	await started.ended;
	await expect.poll(() => processesWith(marker), { timeout: 20_000 }).toEqual([]);
	const processes = async () => (await remainsOf(boxes)).filter((found) => found.startsWith("process"));
	await expect.poll(processes, { timeout: 20_000 }).toEqual([]);
	const next = await paddock.run(["run", FIZZBUZZ, "--policy", "noop"]);
	expect(next.code, next.stderr).toBe(0);
	expect(await remainsOf(boxes)).toEqual([]);
});

const oldNode =
	spawnSync("/usr/bin/node", ["--version"], { encoding: "utf8" }).stdout?.trim().replace("v", "") ?? "";

test.runIf(oldNode !== "" && !isNodeNewEnough(oldNode))(
	"an older Node starts the one that came along",
	async () => {
		await using paddock = await Paddock.open();
		const { code, stdout } = await paddock.run(["--version"], { node: "/usr/bin/node" });
		expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
	},
);

async function writeTask(paddock: Paddock, name: string, setup: string): Promise<string> {
	const folder = join(paddock.home, name);
	await mkdir(folder);
	await writeFile(
		join(folder, "task.yaml"),
		`instruction: wait\nsetup:\n  - ${JSON.stringify(setup)}\nverify:\n  - "true"\nsolution:\n  - bash: "true"\n`,
	);
	return folder;
}

/** Command lines of all processes that mention `text`, but not our own. */
async function processesWith(text: string): Promise<string[]> {
	const found: string[] = [];
	for (const pid of await readdir("/proc")) {
		if (!/^\d+$/.test(pid)) continue;
		const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
		if (line.includes(text)) found.push(line.replaceAll("\0", " "));
	}
	return found;
}

test("a run counts what a killed one left, which can be dropped; what runs elsewhere goes on, is shown, and stops when it is told to", {
	timeout: LONG,
}, async (context) => {
	requireSandbox(context);
	await using paddock = await Paddock.open();
	const [killed, living] = [`5${process.pid}.25`, `6${process.pid}.25`];
	const left = await writeTask(paddock, "left", `sleep ${killed}`);
	const runs = await writeTask(paddock, "runs", `sleep ${living}`);
	const first = paddock.start(["run", left, "--policy", "oracle"]);
	const second = paddock.start(["run", runs, "-n", "2", "--concurrency", "2", "--policy", "oracle"]);
	context.onTestFinished(() => void second.child.kill("SIGKILL"));
	for (const marker of [killed, living])
		await expect.poll(() => processesWith(marker), { timeout: 60_000 }).not.toEqual([]);
	first.child.kill("SIGKILL");
	await first.ended;

	const next = await paddock.run(["run", FIZZBUZZ, "--policy", "noop"]);
	expect(next.stderr).toMatch(/1 rollout from before is unfinished.*paddock worker.*abort --left-behind/);
	const dropped = await paddock.run(["abort", "--left-behind"]);
	expect(dropped).toMatchObject({ code: 0, stderr: "Aborted 1 rollout.\n" });
	const listed = await paddock.run(["list", "--outcome", "aborted", "--json"]);
	expect(JSON.parse(listed.stdout)).toMatchObject({ id: dropped.stdout.trim(), taskId: "left" });
	expect((await paddock.run(["run", FIZZBUZZ, "--policy", "noop"])).stderr).not.toContain("from before");

	expect(await processesWith(living)).not.toEqual([]);
	const running = await paddock.run(["list", "--status", "running", "--json"]);
	const { id, groupId } = JSON.parse(running.stdout.split("\n")[0]!) as { id: string; groupId: string };
	expect((await paddock.run(["show", id])).stdout).toContain(`setup 1/1: sleep ${living}\n`);
	expect((await paddock.run(["abort", "--group", groupId])).stderr).toBe("Aborted 2 rollouts.\n");
	const { stdout } = await second.ended;
	expect(stdout.match(/runs #\d +– +aborted/g)).toHaveLength(2);
	expect(stdout).toMatch(new RegExp(`^runs +2 .* ${groupId}$`, "m"));
	expect(await processesWith(living)).toEqual([]);
});
