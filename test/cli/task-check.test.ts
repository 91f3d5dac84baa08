import { spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { main } from "../../src/cli/cli.ts";
import { requirePart } from "../fixtures/parts.ts";
import { Paddock } from "./paddock.ts";
import { RecordedShell } from "./shell.ts";

/** Checks a folder with these files in it. */
async function check(files: Record<string, string>, ...options: string[]) {
	await using paddock = await Paddock.open();
	const folder = join(paddock.home, "tasks");
	for (const [name, content] of Object.entries(files)) {
		await mkdir(dirname(join(folder, name)), { recursive: true });
		await writeFile(join(folder, name), content);
	}
	const shell = new RecordedShell({
		env: { PATH: process.env.PATH, PADDOCK_HOME: join(paddock.home, "data") },
	});
	const code = await main(["task", "check", folder, ...options], shell);
	return { code, out: shell.stdout.text, err: shell.stderr.text };
}

const GOOD = 'instruction: Write x.\nverify:\n  - test -e x\nsolution:\n  - bash: "touch x"\n';

test("every problem of every task is said, and a task that cannot be read does not hide the next", async () => {
	const { code, out } = await check({
		"a/task.yaml": "instrution: x\nverfy: y\n",
		"b/task.yaml": GOOD.replace("test -e x", 'bash "$HOME/tests/absent.sh"'),
		"b/tests/run.sh": "#!/bin/sh\r\nexit 0\r\n",
		"c/task.yaml": GOOD,
	});
	expect(out).toMatch(
		/^\S+\/a: cannot be read\n {2}PROBLEM: \S+:1:1: .*"instruction".*\n {2}PROBLEM: \S+:2:1: .*"verify"/m,
	);
	expect(out).toMatch(
		/^b: .*\n {2}PROBLEM: verify names tests\/absent\.sh.*\n {2}PROBLEM: tests\/run\.sh has Windows/m,
	);
	expect(out).toMatch(/^c: 0 files.*\n$/m);
	expect(code).toBe(2);
});

test("what the tests call and this machine lacks is foreseen; what setup or an image brings is not", async () => {
	const calling = (what: string, more = "") => `${GOOD.replace("test -e x", what)}${more}`;
	const { code, out } = await check({
		"a/task.yaml": calling("cd . && kotlinc -q"),
		"b/task.yaml": calling("python3 -m robot -q"),
		"c/task.yaml": calling("kotlinc -q", "setup: ./install kotlinc\n"),
		"d/task.yaml": calling("kotlinc -q", "box: { image: some/image }\n"),
		"e/task.yaml": calling('python3 "$HOME/tests/check.py"'),
		"e/tests/check.py": "import json\nimport selenium\n",
	});
	expect(out).toMatch(/^a: .*\n {2}note: its tests call kotlinc, which this machine.*\n/m);
	expect(out).toMatch(/^b: .*\n {2}note: its tests need Python's robot, which this machine.*\n/m);
	expect(out).toMatch(
		/^c: .*\nd: .*\ne: .*\n {2}note: its tests need Python's selenium, which this machine.*\n$/m,
	);
	expect(code).toBe(0);
});

test("a task that can be read but not work is exit code 1", async () => {
	const broken = GOOD.replace("test -e x", "~/tests/absent.sh");
	expect((await check({ "b/task.yaml": broken, "c/task.yaml": GOOD })).code).toBe(1);
});

test("--run says why a task cannot be trusted: the command, its last words, the rollout", {
	timeout: 400_000,
}, async (context) => {
	const hasBwrap = spawnSync("bwrap", ["--version"]).status === 0;
	requirePart(context, "bubblewrap", hasBwrap, "apt-get install bubblewrap");
	const { code, out, err } = await check(
		{
			"unsolvable/task.yaml": GOOD.replace("test -e x", "echo looking for y && ls y"),
			"untestable/task.yaml": GOOD.replace("test -e x", "python3 -m robot"),
		},
		"--run",
	);
	expect(code).toBe(1);
	expect(err).toMatch(/^unsolvable: oracle is ro_\w+$/m);
	expect(out).toMatch(/NOT TO BE TRUSTED: its solution earns 0\.00, doing nothing 0\.00/);
	expect(out).toMatch(/exit code 2: echo looking for y && ls y\n {8}looking for y\n.*No such file/);
	expect(out).toMatch(/CANNOT BE RUN: its solution earns –, doing nothing –/);
	expect(out).toContain("the Python module robot is not installed in the box (verifier_could_not_run)");
	expect(out).toMatch(/Look closer: paddock show ro_/);
});
