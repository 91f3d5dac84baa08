import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { findAgentBinary } from "../../src/host/binary.ts";
import type { SolutionStep, Task, TaskFile } from "../../src/model/task.ts";
import { RUN_UNTRUSTED, runUntrustedTool } from "../../src/sandbox/box/run-untrusted.ts";
import { checkTask } from "../../src/task/check.ts";
import { loadTasks } from "../../src/task/load.ts";

const EXAMPLES = fileURLToPath(new URL("../../examples/tasks", import.meta.url));
const tasks = await loadTasks([EXAMPLES]);
const named = tasks.map((task): [string, Task] => [task.id, task]);

/** The steps of a rollout without box and agent, in a home of its own: quick enough for every save. The real thing is in e2e. */
async function openHome() {
	const home = await mkdtemp(join(tmpdir(), "paddock-example-"));
	const workdir = join(home, "workdir");
	const [bin, temporary] = [join(home, "bin"), join(home, "tmp")];
	for (const folder of [workdir, bin, temporary]) await mkdir(folder);
	await writeFile(join(bin, RUN_UNTRUSTED), runUntrustedTool(findAgentBinary()), { mode: 0o755 });
	const path = [bin, dirname(process.execPath), "/usr/bin", "/bin"].join(":");
	const run = (command: string) =>
		promisify(execFile)("bash", ["-c", command], {
			cwd: workdir,
			env: { HOME: home, PATH: path, LANG: "C.UTF-8", TMPDIR: temporary },
		}).then(
			() => 0,
			(error: { code: number }) => error.code,
		);
	const stage = async (files: readonly TaskFile[], folder: string) => {
		for (const file of files) {
			const path = join(home, folder, file.path);
			await mkdir(dirname(path), { recursive: true });
			await writeFile(path, Buffer.from(file.content, file.encoding));
			await chmod(path, file.executable ? 0o755 : 0o644);
		}
	};
	const play = async (step: SolutionStep): Promise<number> => {
		if (step.tool === "bash") return run(step.command);
		const path = join(workdir, step.path);
		if (step.tool === "write") await writeFile(path, step.content);
		else await writeFile(path, replaceOnce(await readFile(path, "utf8"), step.old, step.new));
		return 0;
	};
	const reward = async (task: Task): Promise<number> => {
		await stage(task.tests, "tests");
		await mkdir(join(home, "logs/verifier"), { recursive: true });
		const codes: number[] = [];
		for (const command of task.verify) codes.push(await run(command));
		const written = await readFile(join(home, "logs/verifier/reward.json"), "utf8").catch(() => null);
		if (written !== null) return (JSON.parse(written) as { reward: number }).reward;
		return codes.filter((code) => code === 0).length / codes.length;
	};
	return { run, stage, play, reward, [Symbol.asyncDispose]: () => rm(home, { recursive: true }) };
}

function replaceOnce(text: string, old: string, by: string): string {
	expect(text.split(old)).toHaveLength(2);
	return text.replace(old, () => by);
}

test("there are at least eight examples", () => {
	expect(tasks.length).toBeGreaterThanOrEqual(8);
});

test.each(named)("%s has nothing to complain about, and has setup, verify and a solution", (_id, task) => {
	expect(checkTask(task)).toEqual([]);
	expect(task.setup).not.toEqual([]);
	expect(task.verify).not.toEqual([]);
	expect(task.solution).not.toEqual([]);
});

test.each(named)("%s: the solution earns 1, doing nothing earns 0", async (_id, task) => {
	await using solved = await openHome();
	await using untouched = await openHome();
	for (const home of [solved, untouched]) {
		await home.stage(task.files, "workdir");
		for (const command of task.setup) expect(await home.run(command)).toBe(0);
	}
	for (const step of task.solution) expect(await solved.play(step)).toBe(0);
	expect(await solved.reward(task)).toBe(1);
	expect(await untouched.reward(task)).toBe(0);
});
