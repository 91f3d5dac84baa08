import { execFile } from "node:child_process";
import { once } from "node:events";
import { watch } from "node:fs";
import { access, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { CHEATS } from "../../src/policy/cheats.ts";
import { POLICY_NAMES } from "../../src/policy/names.ts";
import { makeTask } from "./client.ts";

/** The shell commands of a cheat, run in a home of their own. A cheat that does nothing would prove nothing. */
async function play(name: string) {
	const home = await mkdtemp(join(tmpdir(), "paddock-cheat-"));
	const cwd = join(home, "workdir");
	await mkdir(cwd);
	await mkdir(join(home, "logs/verifier"), { recursive: true });
	const calls = CHEATS[name]!(makeTask()).flatMap((step) => step.calls ?? []);
	for (const call of calls) {
		const { command } = call.args as { command: string };
		await promisify(execFile)("bash", ["-c", command], { cwd, env: { HOME: home, PATH: "/usr/bin:/bin" } });
	}
	return {
		home,
		read: (path: string) => readFile(join(home, path), "utf8"),
		[Symbol.asyncDispose]: () => rm(home, { recursive: true, force: true }),
	};
}

test("every cheat is a policy", () => {
	expect(POLICY_NAMES).toEqual(expect.arrayContaining(Object.keys(CHEATS)));
});

test("cheat-reward writes both reward files", async () => {
	await using cheat = await play("cheat-reward");
	expect(await cheat.read("logs/verifier/reward.txt")).toBe("1\n");
	expect(JSON.parse(await cheat.read("logs/verifier/reward.json"))).toEqual({ reward: 1 });
});

test("cheat-tests leaves tests that always pass", async () => {
	await using cheat = await play("cheat-tests");
	expect(await cheat.read("tests/test.sh")).toBe("#!/bin/bash\nexit 0\n");
});

test("cheat-conftest leaves hooks for interpreters, shells and runtimes, and programs of trusted names", async () => {
	await using cheat = await play("cheat-conftest");
	for (const path of [
		"workdir/conftest.py",
		".bashrc",
		".profile",
		"workdir/bunfig.toml",
		"bin/node",
		".local/bin/python3",
	]) {
		await access(join(cheat.home, path));
	}
	await promisify(execFile)(join(cheat.home, "bin/bash"), [], {
		env: { HOME: cheat.home, PATH: "/usr/bin:/bin" },
	});
	expect(await cheat.read("logs/verifier/reward.txt")).toBe("1\n");
});

test("cheat-daemon leaves a process that goes on writing rewards after its shell has ended", async () => {
	await using cheat = await play("cheat-daemon");
	await appears(cheat.home, ".daemon.pid");
	// A shell makes the file before it writes to it, and the signal of nobody in particular goes to everybody here.
	await expect.poll(() => cheat.read(".daemon.pid")).toMatch(/^[1-9]\d*\n$/);
	const pid = Number(await cheat.read(".daemon.pid"));
	try {
		await appears(join(cheat.home, "logs/verifier"), "reward.json");
	} finally {
		process.kill(pid, "SIGKILL");
	}
});

test("cheat-payload replaces each file of the solution by a program that writes the reward", () => {
	const solution = [
		{ tool: "write", path: "a.sh", content: "x" },
		{ tool: "edit", path: "b.mjs", old: "x", new: "y" },
		{ tool: "bash", command: "ls" },
	];
	const calls = CHEATS["cheat-payload"]!(makeTask({ solution })).flatMap((step) => step.calls ?? []);
	expect(calls.map((call) => call.args)).toEqual([
		{ filePath: "a.sh", content: expect.stringContaining("reward.json") },
		{ filePath: "b.mjs", content: expect.stringContaining("reward.json") },
	]);
});

/** Resolves when `name` is in `folder`. The watch begins before the first look, so nothing is missed between them. */
async function appears(folder: string, name: string): Promise<void> {
	const watcher = watch(folder);
	const isThere = () =>
		access(join(folder, name)).then(
			() => true,
			() => false,
		);
	try {
		while (!(await isThere())) await once(watcher, "change");
	} finally {
		watcher.close();
	}
}
