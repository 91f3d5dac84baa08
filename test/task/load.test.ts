import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { UsageError } from "../../src/errors.ts";
import { loadTask, loadTasks } from "../../src/task/load.ts";

/** A folder with these files in it, gone at the end of the test. */
async function openFolder(files: Record<string, string | Buffer>) {
	const path = await mkdtemp(join(tmpdir(), "paddock-task-"));
	for (const [name, content] of Object.entries(files)) {
		await mkdir(dirname(join(path, name)), { recursive: true });
		await writeFile(join(path, name), content);
	}
	return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

async function refusal(load: Promise<unknown>): Promise<UsageError> {
	const error = await load.then(
		() => null,
		(reason: unknown) => reason,
	);
	expect(error).toBeInstanceOf(UsageError);
	return error as UsageError;
}

const BROKEN: [what: string, yaml: string, position: string, words: string, code: string][] = [
	[
		"an unclosed quote",
		'instruction: "hello\nverify: x\n',
		"task.yaml:",
		"not valid YAML",
		"task_yaml_malformed",
	],
	[
		"bad indentation",
		"instruction: x\n  verify: y\n",
		"task.yaml:1:",
		"not valid YAML",
		"task_yaml_malformed",
	],
	[
		"a key that stands twice",
		"instruction: x\nsetup: a\nsetup: b\n",
		"task.yaml:3:1",
		"unique",
		"task_yaml_malformed",
	],
	["an unknown alias", "instruction: *nobody\n", "task.yaml:1:", "not valid YAML", "task_yaml_malformed"],
	["a list in place of a map", "- a\n- b\n", "task.yaml:1:1", "a map of keys", "task_yaml_invalid"],
	["an empty file", "", "task.yaml:1:1", "a map of keys", "task_yaml_invalid"],
	[
		"a misspelt key",
		"instruction: x\n\nverfy: y\n",
		"task.yaml:3:1",
		'did you mean "verify"',
		"task_unknown_key",
	],
	[
		"a strange key",
		"instruction: x\nzzz: y\n",
		"task.yaml:2:1",
		"the known ones are id, instruction",
		"task_unknown_key",
	],
	[
		"a misspelt limit",
		"instruction: x\nlimits:\n  agents_s: 5\n",
		"task.yaml:3:3",
		'did you mean "agent_s"',
		"task_unknown_key",
	],
	[
		"a misspelt box key",
		"instruction: x\nbox:\n  memory: 5\n",
		"task.yaml:3:3",
		'unknown key "memory"',
		"task_unknown_key",
	],
	[
		"a wrong type",
		"instruction: x\nsetup:\n  - ls\n  - 5\n",
		"task.yaml:4:5",
		"setup.1",
		"task_yaml_invalid",
	],
	[
		"a limit that is no number",
		"instruction: x\nlimits:\n  agent_s: soon\n",
		"task.yaml:3:3",
		"limits.agent_s",
		"task_yaml_invalid",
	],
	[
		"a limit of nothing",
		"instruction: x\nlimits: { max_calls: 0 }\n",
		"task.yaml:2:11",
		"limits.max_calls",
		"task_yaml_invalid",
	],
	[
		"a path that climbs",
		'instruction: x\nfiles:\n  - path: ../x\n    content: ""\n',
		"task.yaml:3:5",
		'".."',
		"task_yaml_invalid",
	],
	[
		"a path elsewhere",
		'instruction: x\nfiles:\n  - path: /etc/x\n    content: ""\n',
		"task.yaml:3:5",
		"/home/user",
		"task_yaml_invalid",
	],
	[
		"a relative artifact",
		"instruction: x\nartifacts:\n  - out\n",
		"task.yaml:3:5",
		"absolute",
		"task_yaml_invalid",
	],
	[
		"a step of no kind",
		"instruction: x\nsolution:\n  - run: ls\n",
		"task.yaml:3:5",
		'unknown key "run"',
		"task_unknown_key",
	],
	[
		"an edit without its new text",
		"instruction: x\nsolution:\n  - edit: a\n    old: b\n",
		"task.yaml:3:5",
		"solution.0.new",
		"task_yaml_invalid",
	],
	["no instruction", "verify: x\n", "task.yaml:", "an instruction is missing", "task_yaml_invalid"],
];

test.each(BROKEN)("%s is refused with file, line and column", async (_what, yaml, position, words, code) => {
	await using folder = await openFolder({ "task.yaml": yaml });
	const error = await refusal(loadTask(folder.path));
	expect(error.message).toContain(position);
	expect(error.message).toContain(words);
	expect(error.message).not.toContain("\n");
	expect(error.code).toBe(code);
});

test("a few lines of aliases cannot unfold into gigabytes", async () => {
	const levels = Array.from({ length: 9 }, (_, i) => `l${i + 1}: &l${i + 1} [${`*l${i}, `.repeat(9)}]`).join(
		"\n",
	);
	await using folder = await openFolder({ "task.yaml": `l0: &l0 [x]\n${levels}\ninstruction: x\n` });
	expect((await refusal(loadTask(folder.path))).code).toBe("task_yaml_malformed");
});

test.each(["[", "{a: ", "- "])(
	"ten thousand levels of %j are refused, not survived by luck",
	async (opening) => {
		await using folder = await openFolder({
			"task.yaml": `instruction: x\nfiles: ${opening.repeat(10_000)}`,
		});
		expect((await refusal(loadTask(folder.path))).message).toContain("task.yaml:");
	},
);

test("a name that could climb out of a folder is refused as id and mended as folder name", async () => {
	await using folder = await openFolder({
		"task.yaml": "instruction: x\nid: ../../etc\n",
		"my task!/task.yaml": "instruction: x\n",
	});
	expect((await refusal(loadTask(folder.path))).message).toContain("task.yaml:2:1");
	expect((await loadTask(join(folder.path, "my task!"))).id).toBe("my-task-");
});

test("a task that does not exist is named in the refusal", async () => {
	await using empty = await openFolder({ "notes.md": "" });
	const nowhere = join(empty.path, "nowhere");
	for (const path of [nowhere, empty.path, join(empty.path, "notes.md")]) {
		const error = await refusal(loadTasks([path]));
		expect(error.code).toBe("unknown_task");
		expect(error.message).toContain(path);
	}
	expect((await refusal(loadTask(nowhere))).code).toBe("unknown_task");
});

test("a folder says everything: instruction, files, tests, solution", async () => {
	const bytes = Buffer.from([0, 255, 1, 254]);
	await using folder = await openFolder({
		"task.yaml":
			"setup: make\nlimits: { agent_s: 5, max_calls: 7 }\nbox: { memory_mb: 1024, network: internet }\n",
		"instruction.md": "\nDo it.\n",
		"files/src/a.txt": "a\n",
		"files/.hidden": "h",
		"files/image.bin": bytes,
		"tests/test.sh": "exit 0\n",
		"solution/b.txt": "b\n",
		"solution/bin/run": "#!/bin/sh\n",
		"solution/solve.sh": "echo solved\n",
	});
	await chmod(join(folder.path, "solution/bin/run"), 0o755);
	const task = await loadTask(folder.path);
	expect(task.instruction).toBe("Do it.");
	expect(task.files).toEqual([
		{ path: ".hidden", content: "h", encoding: "utf8", executable: false },
		{ path: "image.bin", content: bytes.toString("base64"), encoding: "base64", executable: false },
		{ path: "src/a.txt", content: "a\n", encoding: "utf8", executable: false },
	]);
	expect(task.setup).toEqual(["make"]);
	expect(task.tests.map((file) => file.path)).toEqual(["test.sh"]);
	expect(task.solution).toEqual([
		{ tool: "write", path: "b.txt", content: "b\n" },
		{ tool: "write", path: "bin/run", content: "#!/bin/sh\n" },
		{ tool: "bash", command: "chmod +x 'bin/run'" },
		{ tool: "bash", command: "echo solved\n" },
	]);
	expect([task.clocks.agentS, task.clocks.verifyS, task.budget.maxCalls]).toEqual([5, 120, 7]);
	expect([task.box.memoryMb, task.box.network, task.box.pids]).toEqual([1024, "internet", 512]);
});

test("steps in task.yaml are write, edit and bash", async () => {
	const yaml =
		"instruction: x\nsolution:\n  - write: a\n    content: b\n  - edit: a\n    old: b\n    new: c\n  - bash: ls\n";
	await using folder = await openFolder({ "task.yaml": yaml });
	expect((await loadTask(join(folder.path, "task.yaml"))).solution).toEqual([
		{ tool: "write", path: "a", content: "b" },
		{ tool: "edit", path: "a", old: "b", new: "c" },
		{ tool: "bash", command: "ls" },
	]);
});

test.each([
	["instruction", { "instruction.md": "again" }],
	["solution", { "solution/a": "again" }],
])("a second %s is refused", async (what, more) => {
	const yaml = "instruction: x\nsolution:\n  - bash: ls\n";
	await using folder = await openFolder({ "task.yaml": yaml, ...more });
	expect((await refusal(loadTask(folder.path))).message).toContain(`the ${what} also stands in task.yaml`);
});

test("a link out of the task's folder is refused, one within it is read", async () => {
	await using folder = await openFolder({
		"task.yaml": "instruction: x\n",
		"files/a": "inside",
		"shared.txt": "shared",
	});
	await symlink("../shared.txt", join(folder.path, "files/b"));
	expect((await loadTask(folder.path)).files.map((file) => file.content)).toEqual(["inside", "shared"]);
	await symlink("/etc/hostname", join(folder.path, "files/c"));
	const error = await refusal(loadTask(folder.path));
	expect(error.code).toBe("task_link_outside");
	expect(error.message).toContain("files/c");
});

test("a link to a whole folder elsewhere brings nothing in", async () => {
	await using outside = await openFolder({ secret: "s" });
	await using folder = await openFolder({ "task.yaml": "instruction: x\n", "files/a": "inside" });
	await symlink(outside.path, join(folder.path, "files/linked"));
	await symlink(outside.path, join(folder.path, "tests"));
	expect((await refusal(loadTask(folder.path))).code).toBe("task_link_outside");
});

test("a file that is too large is refused by name", async () => {
	await using folder = await openFolder({
		"task.yaml": "instruction: x\n",
		"files/big": Buffer.alloc(4 * 1024 * 1024 + 1),
	});
	const error = await refusal(loadTask(folder.path));
	expect(error.code).toBe("task_too_large");
	expect(error.message).toContain("files/big");
});

test("a folder of tasks gives all of them, sorted, each once", async () => {
	const yaml = "instruction: x\n";
	await using suite = await openFolder({
		"b/task.yaml": yaml,
		"a/task.yaml": yaml,
		"deep/c/task.yaml": yaml,
		".git/task.yaml": yaml,
	});
	const tasks = await loadTasks([suite.path, join(suite.path, "b")]);
	expect(tasks.map((task) => task.id)).toEqual(["a", "b", "c"]);
});

test("two tasks of one name are refused", async () => {
	await using suite = await openFolder({
		"a/task.yaml": "id: same\ninstruction: x\n",
		"b/task.yaml": "id: same\ninstruction: x\n",
	});
	expect((await refusal(loadTasks([suite.path]))).message).toContain('both called "same"');
});

test("everything that is wrong with a task.yaml is said at once, each with its line", async () => {
	const yaml = "instruction: x\nverfy: y\nlimits:\n  agents_s: 5\n  verify_s: soon\n";
	await using folder = await openFolder({ "task.yaml": yaml });
	const told = (await refusal(loadTask(folder.path))).message.split("\n");
	expect(told.map((line) => /task\.yaml:(\d+):/.exec(line)?.[1]).sort()).toEqual(["2", "4", "5"]);
});

test("what is wrong with its folders is said at once, too", async () => {
	await using folder = await openFolder({ "task.yaml": "verify: x\n" });
	await mkdir(join(folder.path, "tests"));
	await symlink("/etc/passwd", join(folder.path, "tests", "out"));
	const told = (await refusal(loadTask(folder.path))).message.split("\n");
	expect(told).toEqual([
		expect.stringContaining("an instruction is missing"),
		expect.stringContaining("leads out"),
	]);
});

test("every problem of a task that is too much is said, not the first alone", async () => {
	const many = JSON.stringify(Array.from({ length: 20_000 }, () => "true"));
	await using folder = await openFolder({ "task.yaml": `instruction: x\nsetup: ${many}\nverify: ${many}\n` });
	const { message } = await refusal(loadTask(folder.path));
	expect(message.split("\n")).toEqual([
		expect.stringMatching(/task\.yaml: setup: /),
		expect.stringMatching(/task\.yaml: verify: /),
	]);
});

test("a folder keeps its name in any script, and an id may be written in any", async () => {
	const yaml = { "задача/task.yaml": "instruction: x\n", "课题 二/task.yaml": "instruction: x\n" };
	const given = { "a/task.yaml": "instruction: x\nid: наблюдение-2.b\n" };
	await using folder = await openFolder({ ...yaml, ...given, "déjà-vu/task.yaml": "instruction: x\n" });
	const ids = (await loadTasks([folder.path])).map((task) => task.id);
	expect(ids.sort()).toEqual(["déjà-vu", "задача", "课题-二", "наблюдение-2.b"].sort());
});
